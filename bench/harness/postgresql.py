"""A PostgreSQL server for benchmarks, with default durability."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

NAMED = "SYMBIONT_TEST_POSTGRES"


@contextmanager
def postgresql() -> Iterator[str | None]:
    """Yield the URL of a temporary server; without the package `pgserver` the value of SYMBIONT_TEST_POSTGRES, else
    None."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pgserver import get_server  # type: ignore[attr-defined]
    except ImportError:
        yield os.environ.get(NAMED)
        return
    with tempfile.TemporaryDirectory(prefix="symbiont-bench-") as folder:
        # Started by root, the server runs as another user.
        Path(folder).chmod(0o755)
        with get_server(Path(folder) / "data", cleanup_mode="delete") as server:
            yield str(server.get_uri())


def named(server: str, database: str) -> str:
    """Return the URL of `database` on `server`."""
    return urlunsplit(urlsplit(server)._replace(path=f"/{database}"))
