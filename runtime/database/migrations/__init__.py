"""Revisions of the schema; a released revision never changes."""
