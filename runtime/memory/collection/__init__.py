"""The collection store: items as rows of the database, for every client that pushes and searches."""
