"""Summaries of the items of some time (the fifth design, M9)."""
