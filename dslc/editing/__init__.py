"""Changes of program text: format, edits, fixes."""
