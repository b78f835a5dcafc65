"""Reference of the language, generated from the compiler's tables."""
