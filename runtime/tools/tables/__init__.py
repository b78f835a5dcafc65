"""Tools on the SQL tables of a user."""
