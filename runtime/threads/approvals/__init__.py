"""Calls of tools that wait for a person: asked by a run, decided by a person, awaited across restarts."""
