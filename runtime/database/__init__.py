"""The database: one schema, one writer, sealed content; SQLite by default, PostgreSQL by URL."""
