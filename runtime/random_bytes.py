"""Random bytes for identifiers and nonces, a few at a time."""

from __future__ import annotations

import os
import threading

_DRAWN = 4096


class _Drawn(threading.local):
    """What was drawn and not taken yet; every thread has its own."""

    bytes = b""
    at = 0


_drawn = _Drawn()


def random_bytes(count: int) -> bytes:
    """`count` bytes of the system's own randomness, at most 4,096, which nobody else is given.

    They are drawn many at a time: each call of the system gives the interpreter's lock away, and a thread that makes
    hundreds of rows has to win it back from a busy event loop every time. Not for keys and tokens: what is drawn stays
    in memory until it is taken.
    """
    begin = _drawn.at
    if len(_drawn.bytes) - begin < count:
        _drawn.bytes, begin = os.urandom(_DRAWN), 0
    _drawn.at = begin + count
    return _drawn.bytes[begin : _drawn.at]


def _forget() -> None:
    """A process that was forked must not take what the other one takes."""
    global _drawn  # noqa: PLW0603
    _drawn = _Drawn()


os.register_at_fork(after_in_child=_forget)
