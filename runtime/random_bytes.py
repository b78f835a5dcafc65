"""Random bytes for identifiers and nonces."""

from __future__ import annotations

import os
import threading

_POOL_BYTES = 4096


class _RandomPool(threading.local):
    """Random bytes that were drawn and not used yet, for each thread."""

    bytes = b""
    at = 0


_pool = _RandomPool()


def random_bytes(count: int) -> bytes:
    """Return `count` bytes (at most 4,096) of the system's randomness, each byte returned only once.

    Bytes are drawn in blocks: each system call releases the interpreter lock, and a thread that creates hundreds of
    rows would have to win it back from a busy event loop each time. Not for keys and tokens: drawn bytes stay in memory
    until they are used.
    """
    begin = _pool.at
    if len(_pool.bytes) - begin < count:
        _pool.bytes, begin = os.urandom(_POOL_BYTES), 0
    _pool.at = begin + count
    return _pool.bytes[begin : _pool.at]


def _drop_pool() -> None:
    """Drop the drawn bytes after a fork, so that parent and child do not return the same ones."""
    global _pool  # noqa: PLW0603
    _pool = _RandomPool()


os.register_at_fork(after_in_child=_drop_pool)
