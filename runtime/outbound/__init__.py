"""Outgoing calls of the daemon: address rules, time and size limits, retries."""
