"""Agents: handlers of turns, and the dispatcher that runs them."""
