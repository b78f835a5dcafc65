"""The tools on the key-value store of the caller, which all agents of a user share."""
