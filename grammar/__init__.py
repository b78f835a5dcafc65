"""The grammars: what the compiler reads and what editors read."""
