"""The tools by which persons and other programs read what an agent knows: its memory and its conversations together."""
