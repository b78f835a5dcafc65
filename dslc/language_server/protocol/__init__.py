"""The Language Server Protocol. Only these modules import pygls."""
