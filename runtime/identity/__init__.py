"""Who asks: users, their bearer tokens, and the caller that operations are given."""
