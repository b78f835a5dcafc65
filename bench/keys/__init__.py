"""Measurements of the keys of users."""
