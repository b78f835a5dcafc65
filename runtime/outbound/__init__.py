"""Calls that the daemon makes of its own accord: to where, how long, how much."""
