"""The tools on the core memory of agents."""
