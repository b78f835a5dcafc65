"""What is kept of secrets, and of what was deleted."""
