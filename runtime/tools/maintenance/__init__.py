"""Tools of the maintenance of memories: statistics, compaction, moves, export, import."""
