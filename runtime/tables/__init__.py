"""SQL tables and the key-value store of users."""
