"""Receives requests: limits, verification, admission in one transaction, and the response."""
