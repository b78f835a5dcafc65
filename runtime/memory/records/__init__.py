"""The records store (second design): one JSON file for each item, written once, with a checksum, behind gates.

`options`: what a program may configure; `gates`: what must be closed before a write. `writer` writes the `operations`
to one agent's folder; `outcome` records how they went; `reader` reads. `files/`: the record, its names, the index,
state and evidence beside the records, and recovery after a crash. `remotes/`: a TABLE of services that records are sent
to, and the `sync` that sends them from the outbox. `readiness`: problems to report. `user_removal`: deletes a user's
records.
"""
