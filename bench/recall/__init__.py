"""How often the evidence of questions about dialogues is among the first hits."""
