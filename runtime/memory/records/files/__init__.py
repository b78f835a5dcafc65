"""The files of one agent's records: names, checksums, atomic writes, recovery after a crash."""
