"""Agents: what handles a delivery."""
