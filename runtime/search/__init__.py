"""Search by meaning and by words, combined by weights."""
