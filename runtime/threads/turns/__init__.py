"""Turns: requests to agents, claimed, leased, retried and recovered by one mechanism for every kind."""
