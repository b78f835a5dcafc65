"""Tools of what an agent knows: core memory, conversations, usage."""
