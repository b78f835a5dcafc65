"""Shared by stores of files: a base class, and folders and files of agents with their paths and locks."""
