"""Notifications to systemd: READY, RELOADING, STOPPING, STATUS and WATCHDOG (sd_notify(3)), on a datagram socket."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import MutableMapping


class Notifier:
    """Sends state to `$NOTIFY_SOCKET`; does nothing if the variable is unset."""

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        # A leading @ represents the zero byte of the abstract namespace.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._watchdog = _watchdog_seconds(environ)
        self._status = ""

    def _send(self, *lines: str) -> None:
        if not self._address:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as link:
            try:
                link.connect(self._address)
                link.sendall("\n".join(lines).encode())
            except OSError:
                # The service manager is gone; the daemon does not depend on it.
                return

    def ready(self, status: str) -> None:
        self._status = status
        self._send("READY=1", f"STATUS={status}")

    def status(self, status: str) -> None:
        """Send the status line if it changed."""
        if status != self._status:
            self._status = status
            self._send(f"STATUS={status}")

    def reloading(self) -> None:
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def stopping(self) -> None:
        self._send("STOPPING=1", "STATUS=draining")

    async def watch(self) -> None:
        """Notify the watchdog twice per interval while the event loop runs; return at once if there is none."""
        if not self._address or self._watchdog is None:
            return
        while True:
            self._send("WATCHDOG=1")
            await asyncio.sleep(self._watchdog / 2)


def _watchdog_seconds(environ: MutableMapping[str, str]) -> float | None:
    """Return WATCHDOG_USEC in seconds if it is meant for this process (sd_watchdog_enabled(3)), else None."""
    if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    try:
        return int(environ["WATCHDOG_USEC"]) / 1_000_000 or None
    except (KeyError, ValueError):
        return None
