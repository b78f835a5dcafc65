"""Diagnostics as data, their collector, and suggestions for misspelt names."""
