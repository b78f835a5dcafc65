"""Core memory: blocks of text that are in every context of an agent (the fourth design, section 4.1)."""
