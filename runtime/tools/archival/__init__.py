"""The tools by which an agent writes and searches its archival memory, the memory that its program gives it."""
