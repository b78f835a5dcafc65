"""Checks: from the tree to typed blocks and diagnostics (names, types, bounds, references)."""
