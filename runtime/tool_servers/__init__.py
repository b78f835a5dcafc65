"""Servers of the Model Context Protocol whose tools agents use: what a person approved of them, and the connections.

The protocol and the SDK are in `session`, `stdio` and `http`; they are imported when a server is connected.
"""
