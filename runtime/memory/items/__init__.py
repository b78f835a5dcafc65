"""Items of an open memory: the newest, what became of them, and their withdrawal."""
