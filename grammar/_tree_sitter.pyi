def language() -> object:
    """The tree-sitter language, as `tree_sitter.Language` takes it."""
