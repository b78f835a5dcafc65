"""Agents with the tools of MCP servers, from the approval to the kill of a daemon."""
