"""Turns of agents, their runs, and the recorded steps of each run."""
