"""Output to a terminal: tables, progress, hits, errors."""
