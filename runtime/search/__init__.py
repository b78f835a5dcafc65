"""Finding what was remembered: by meaning and by words, weighed against each other."""
