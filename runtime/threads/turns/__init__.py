"""Turns: what an agent is asked to do, claimed, leased, retried and recovered by one mechanism for every kind."""
