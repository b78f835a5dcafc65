"""The index in the daemon: vectors and words in one SQLite file, searched in memory."""
