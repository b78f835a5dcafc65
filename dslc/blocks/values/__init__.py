"""Value types: durations, sizes, names, paths, patterns, URLs, secrets."""
