"""Reads values by the types of their settings, and reports those that are wrong."""
