"""Agents: what handles turns, and the dispatcher that runs them."""
