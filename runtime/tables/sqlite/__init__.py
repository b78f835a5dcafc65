"""SQL tables in a sealed SQLite file for each user, opened by a worker process that serves only this user."""
