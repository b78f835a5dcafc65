"""Tools by which persons decide about the calls of agents."""
