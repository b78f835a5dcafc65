"""Conversion of `file:` URIs and paths. Other URIs name texts that only the editor has."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit


def path_of(uri: str) -> str | None:
    """Absolute path of a `file:` URI; None for any other or invalid URI."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme.lower() != "file" or parts.netloc not in {"", "localhost"}:
        return None
    path = unquote(parts.path, errors="surrogateescape")
    if not path.startswith("/") or "\0" in path:
        return None
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return None
    return os.path.normpath(path)


def uri_of(name: str) -> str:
    """URI of a source's name, which is an absolute path or already a URI."""
    return Path(name).as_uri() if name.startswith("/") else name
