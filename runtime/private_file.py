"""Files that only their owner may read: keys, wrapped or not."""

from __future__ import annotations

import stat
from pathlib import Path

from runtime.errors import UsageError


def require_private(file: Path) -> None:
    """Raise UsageError if anyone but the owner may read or write the file. Raises OSError if it cannot be looked at."""
    mode = stat.S_IMODE(file.stat().st_mode)
    if mode & 0o077:
        raise UsageError(f"{file} can be read by others (mode {mode:o})", hint=f"chmod 600 {file}")
