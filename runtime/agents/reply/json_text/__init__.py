"""Reads JSON: valid, with harmless mistakes, and by guessing."""
