"""The version of this installation, and the commit that it was built from."""

from __future__ import annotations

import subprocess
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import Final

DISTRIBUTION: Final = "symbiont"
STAMP: Final = "dslc._commit"
"""The module that `setup.py` writes into what it builds: its `COMMIT` is the commit."""
_SECONDS: Final = 2


def version() -> str:
    """Return the version, such as `0.2.0`."""
    return metadata.version(DISTRIBUTION)


@cache
def commit() -> str | None:
    """Return the first 12 digits of the commit: of the checkout that this runs from, or as it was built; None if
    neither is known."""
    repository = Path(__file__).resolve().parents[1] / ".git"
    try:
        if not repository.exists():
            return str(import_module(STAMP).COMMIT)
        # Named, because a hook of git has the variables of another repository.
        command = ("git", f"--git-dir={repository}", "rev-parse", "--short=12", "HEAD")
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=True)  # noqa: S603
    except (ImportError, OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def full() -> str:
    """Return the version, with the commit if it is known."""
    known = commit()
    return version() if known is None else f"{version()} (commit {known})"
