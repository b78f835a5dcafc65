"""Measurements of what users keep in SQL tables and in the key-value store."""
