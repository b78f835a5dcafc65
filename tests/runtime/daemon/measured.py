"""`symbi` whose event loop measures its stops: the longest one is in the file `stops` of the root, in seconds."""

from __future__ import annotations

import asyncio
import mmap
import struct
import time
from pathlib import Path
from typing import Any, Final

from runtime.cli import main
from runtime.daemon import server

FILE: Final = "stops"
FORM: Final = struct.Struct("=d")
TICK_SECONDS: Final = 0.002


class _Stops:
    """A stop is the processor time of the process between two rounds of the loop, or the time that passed if that is
    less: neither other processes nor work beside the loop make it longer."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        Path(FILE).write_bytes(bytes(FORM.size))
        with Path(FILE).open("r+b") as file:
            self._longest = mmap.mmap(file.fileno(), FORM.size)
        self._at = self._now()
        self._round()

    @staticmethod
    def _now() -> tuple[float, float]:
        return time.process_time(), time.monotonic()

    def _round(self) -> None:
        now = self._now()
        stop = min(now[0] - self._at[0], now[1] - self._at[1])
        if stop > FORM.unpack(self._longest)[0]:
            self._longest[:] = FORM.pack(stop)
        self._at = self._now()
        self._loop.call_later(TICK_SECONDS, self._round)


def measured() -> None:
    """Run `symbi` so."""
    serve = server.serve

    async def serve_measured(*given: Any, **named: Any) -> int:
        _Stops(asyncio.get_running_loop())
        return await serve(*given, **named)

    vars(server)["serve"] = serve_measured
    main()
