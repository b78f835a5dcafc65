"""Comparison of two programs, and the effects of a reload."""
