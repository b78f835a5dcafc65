"""Measurements of language models."""
