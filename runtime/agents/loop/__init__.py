"""The loop of an agent with a model: ask, read the reply, call tools, repeat."""
