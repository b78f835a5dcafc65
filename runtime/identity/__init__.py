"""Callers: users, their bearer tokens, and the `Caller` that is passed to operations."""
