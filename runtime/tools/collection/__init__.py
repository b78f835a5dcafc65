"""Tools that work on collections."""
