"""Recall: what was said in threads, as a store that is searched like every other."""
