"""The index in PostgreSQL: entries, words and vectors in one schema, with pgvector. Nothing of it is on this machine.

`options` what a program says, `server` connections and transactions, `tables` the schema, `writing` what changes it,
`words` and `vectors` the two ways to search, `hnsw` the index of vectors, `opened` all of it as an `Index`.
"""
