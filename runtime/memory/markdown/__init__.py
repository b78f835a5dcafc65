"""The store of Markdown files: what an agent knows in `memory.md`, and one log a day."""
