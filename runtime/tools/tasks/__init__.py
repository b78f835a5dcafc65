"""Tools on the tasks of the caller (the third design, feature 1)."""
