"""The records store (second design): one JSON file a memory, written once, with a checksum; gates stand before it.

`options` what a program may say; `record` the file; `gates` what must be closed before a write; `shelf` the names in
one agent's folder; `folder_index`, `state` and `evidence` what is written beside the records; `cabinet` the writing and
`reading` the reading half of an agent's folder; `outbox` and `courier` the sending to a remote; `remotes/` the TABLE of
those; `store` the whole.
"""
