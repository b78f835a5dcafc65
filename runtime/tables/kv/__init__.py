"""The key-value store of each user: JSON values by name, with tags, an expiry, and versions for compare-and-set."""
