"""Verifies requests with the secrets of a webhook, and signs requests for tests."""
