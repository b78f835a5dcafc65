"""Writes generated files: the compiler's catalog, the reference of providers and tools, the listing of MCP, the chat in
the README."""
