"""The log of what happens in the runs of agents, kept for a day."""
