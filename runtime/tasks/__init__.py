"""The tasks of users: what was promised, and what is done."""
