"""Random bytes for identifiers and nonces."""

from __future__ import annotations

import os
import threading

_DRAWN = 4096


class _RandomPool(threading.local):
    """Random bytes that were drawn and not used yet, for each thread."""

    bytes = b""
    at = 0


_drawn = _RandomPool()


def random_bytes(count: int) -> bytes:
    """Return `count` bytes (at most 4,096) of the system's randomness, each byte returned only once.

    Bytes are drawn in blocks: each system call releases the interpreter lock, and a thread that creates hundreds of
    rows would have to win it back from a busy event loop each time. Not for keys and tokens: drawn bytes stay in memory
    until they are used.
    """
    begin = _drawn.at
    if len(_drawn.bytes) - begin < count:
        _drawn.bytes, begin = os.urandom(_DRAWN), 0
    _drawn.at = begin + count
    return _drawn.bytes[begin : _drawn.at]


def _forget() -> None:
    """Drop the drawn bytes after a fork, so that parent and child do not return the same ones."""
    global _drawn  # noqa: PLW0603
    _drawn = _RandomPool()


os.register_at_fork(after_in_child=_forget)
