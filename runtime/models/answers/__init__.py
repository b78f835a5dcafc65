"""Answers of services: their parts, characters that were cut in two, and what a refusal means."""
