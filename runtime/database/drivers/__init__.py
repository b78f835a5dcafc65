"""SQLite and PostgreSQL as SQLAlchemy uses them here."""
