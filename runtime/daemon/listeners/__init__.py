"""Listeners: REST, MCP, metrics, and the sockets."""
