"""How the schema came to be; each revision is written out and never changed once released."""
