"""Changes to program text: formatting, edits, fixes."""
