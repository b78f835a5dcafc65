"""Webhooks: who sends them, how they are proved, which are wanted."""
