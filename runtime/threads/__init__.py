"""Runs and their steps: what was about to be done, and what came of it."""
