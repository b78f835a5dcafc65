"""Tools that work on what agents remember."""
