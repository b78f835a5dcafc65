"""Tools on agents' memories."""
