"""Texts of others that give orders to an agent, and a model that obeys every one of them.

`payloads.toml` has the texts; a new one is tried by itself. What keeps an agent from harm may not depend on its model.
"""
