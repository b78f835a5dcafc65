"""Signature schemes: how a sender proves that a request is its own."""
