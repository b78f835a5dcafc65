"""The audit: refused requests, counted and listed."""
