"""Listeners and what they serve: REST, MCP, metrics, and the sockets."""
