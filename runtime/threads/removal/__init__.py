"""Deletion of threads, and of what outputs of tools quote."""
