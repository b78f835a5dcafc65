"""The records store (second design): one JSON file a memory, written once, with a checksum; gates stand before it.

`options` what a program may say; `gates` what must be closed before a write; `record` the file. `writer` writes to one
agent's folder what `works` say, by `staging`; `name_index` knows the names in it and `tail` which of them came last;
`folder_index`, `state` and `evidence` are what is written beside the records, `aftermath` writes down how it went, and
`recovery` finishes what was cut off. `reading` reads. `outbox` notes what is to be sent, `letters` reads it and
`sync` sends it to one of `remotes/`, a TABLE. `readiness` says what stands in the way; `store` is the whole.
"""
