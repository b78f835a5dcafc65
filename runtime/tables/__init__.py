"""What a user keeps in SQL tables and in the key-value store."""
