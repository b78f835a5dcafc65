"""Tools as a language model sees them: which, by which names, with which schemas, and their results as text."""
