"""Reads values by the types of their settings, and reports invalid ones."""
