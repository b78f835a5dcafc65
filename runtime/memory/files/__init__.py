"""Folders and files of agents: paths, locks, whether they can be written."""
