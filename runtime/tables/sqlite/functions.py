"""Functions of PostgreSQL that SQLite lacks, and without which blobs could not be given as text."""

from __future__ import annotations

import base64
from typing import Any

import apsw


def add_functions(connection: apsw.Connection) -> None:
    """Add `encode(blob, 'base64'|'hex')` and `decode(text, 'base64'|'hex')`."""
    connection.create_scalar_function("encode", _encode, 2, deterministic=True)
    connection.create_scalar_function("decode", _decode, 2, deterministic=True)


def _encode(*values: Any) -> str | None:
    value, coding = values
    if value is None:
        return None
    content = value if isinstance(value, bytes) else str(value).encode()
    return base64.b64encode(content).decode() if _is_base64(coding) else content.hex()


def _decode(*values: Any) -> bytes | None:
    value, coding = values
    if value is None:
        return None
    return base64.b64decode(str(value)) if _is_base64(coding) else bytes.fromhex(str(value))


def _is_base64(coding: object) -> bool:
    if coding not in ("base64", "hex"):
        raise ValueError("encode() and decode() take 'base64' or 'hex'")
    return coding == "base64"
