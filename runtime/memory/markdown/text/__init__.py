"""The text of a Markdown memory: headings, bullets, annotations and log entries. No file is opened here."""
