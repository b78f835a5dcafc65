"""Filters: which deliveries a webhook accepts."""
