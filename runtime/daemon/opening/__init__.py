"""Opening of what a generation uses: memories, models, servers of tools, secrets."""
