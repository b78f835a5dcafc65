"""Keeps the index of a memory up to date with its store."""
