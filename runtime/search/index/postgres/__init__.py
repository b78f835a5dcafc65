"""The index in PostgreSQL: entries, words and vectors in one schema, with pgvector. No data of it is on this machine.

`options`: of a program; `connections`: connections and transactions; `schema`: the tables; `writes`: changes;
`tokens`: token bits; `sizes`: numbers of words; `keyword_search` and `vector_search`: the two ways to search; `hnsw`:
the index of vectors; `index`: all of it as an `Index`.
"""
