"""The keys of users, apart from the data that they open: their tables, and the ring that seals and opens with them."""
