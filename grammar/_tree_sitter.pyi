def language() -> object:
    """Return the tree-sitter language, for `tree_sitter.Language`."""
