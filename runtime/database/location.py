"""The location of a database: a file for SQLite, a URL for PostgreSQL. Passwords stay inside this value."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from runtime.errors import UsageError

Kind = Literal["sqlite", "postgresql"]

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):")
_POSTGRESQL = ("postgresql", "postgres")


@dataclass(frozen=True)
class DatabaseLocation:
    """The location of a database. `label` is safe to print; `dsn` may contain a password and is left out of the
    repr."""

    kind: Kind
    label: str
    path: Path | None = None
    dsn: str = field(default="", repr=False)


def locate(url: str | Path) -> DatabaseLocation:
    """Parse `sqlite:///PATH`, a plain path, or `postgresql://…` (libpq's URL form).

    Raises UsageError for any other scheme, without quoting the URL, which may contain a password.
    """
    if isinstance(url, Path):
        return DatabaseLocation("sqlite", str(url), path=url)
    scheme = match.group(1).lower() if (match := _SCHEME.match(url)) else ""
    if scheme in _POSTGRESQL:
        return DatabaseLocation("postgresql", _without_password(url), dsn=url)
    if scheme == "sqlite":
        path = unquote(url.partition(":///")[2])
        if not path or path == ":memory:":
            raise UsageError("the database URL names no file", hint="write sqlite:///PATH")
        return DatabaseLocation("sqlite", path, path=Path(path))
    if scheme or not url:
        raise UsageError(
            f"unknown kind of database: {scheme!r}", hint="write sqlite:///PATH or postgresql://USER@HOST/NAME"
        )
    return DatabaseLocation("sqlite", url, path=Path(url))


def _without_password(url: str) -> str:
    """Return the URL without a password: user, host, port and database name, or the socket folder."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "postgresql://…"
    user = f"{parts.username}@" if parts.username else ""
    folder = dict(parse_qsl(parts.query)).get("host", "")
    return f"postgresql://{user}{parts.hostname or folder}{port}{parts.path}"
