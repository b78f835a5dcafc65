"""The context of one step of an agent: typed fields, a token budget, and the request that they make."""
