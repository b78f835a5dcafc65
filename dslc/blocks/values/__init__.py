"""Types of values: durations, sizes, names, paths, patterns, URLs, secrets."""
