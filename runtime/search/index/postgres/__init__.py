"""The index in PostgreSQL: entries, words and vectors in one schema, with pgvector. No data of it is on this machine.

`options`: of a program; `connections`: connections and transactions; `schema`: the tables; `text`: texts and words as
PostgreSQL stores them; `writes`: changes; `keyword_search` and `vector_search`: the two ways to search; `queries`: all
others; `index`: all of it as an `Index`.
"""
