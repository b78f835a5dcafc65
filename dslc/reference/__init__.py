"""The reference of the language, written from the tables that the compiler itself uses."""
