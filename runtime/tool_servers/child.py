"""The process of a server, as the daemon sees it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import mmap
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from runtime.tool_servers import guard
from runtime.tool_servers.errors import ServerAway

INHERITED: Final = ("PATH", "HOME", "LANG")
"""Variables that a server gets from the daemon, which has secrets in others."""
CLOSE_SECONDS: Final = 2.0
"""Seconds that a server has to end after its input was closed; then it is killed."""
LONGEST_LINE: Final = 500
"""Maximum characters of a line of its error output; the rest is cut."""
LINES_PER_MINUTE: Final = 60
"""Lines of its error output that are passed on. Of others only the last one is looked at."""
SLOW_SECONDS: Final = 0.05
"""Seconds between two reads of the error output, of at most 16 KiB, while nothing is passed on."""

_GUARD: Final = str(Path(guard.__file__).absolute())


class Child:
    """A server that runs, in a session of its own. It has standard input and output, and ends with the daemon."""

    def __init__(
        self, process: Process, lifeline: int, on_line: Callable[[str], None], masked: Callable[[str], str]
    ) -> None:
        self._process = process
        self._lifeline = lifeline
        self._on_line = on_line
        self._masked = masked
        self.last_line = ""
        """The last line of its error output."""
        self._errors = asyncio.create_task(self._read_errors(), name=f"error output of mcp server {process.pid}")

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        env: Mapping[str, str],
        folder: Path,
        on_line: Callable[[str], None],
        masked: Callable[[str], str],
    ) -> Child:
        """Start `command` in `folder` with `env` and what it inherits. `on_line` gets the lines of its error output, as
        `masked` returns them.

        Raises ServerAway. A command that does not exist ends at once, with exit code `guard.NOT_STARTED`.
        """
        kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
        reading, lifeline = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-I", "-S", _GUARD, str(reading),
                stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=folder, env={}, pass_fds=[reading], start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            os.close(lifeline)
            raise ServerAway(f"its process cannot be started: {error.strerror}") from None
        except BaseException:
            os.close(lifeline)
            raise
        finally:
            os.close(reading)
        child = cls(process, lifeline, on_line, masked)
        start = json.dumps({"command": list(command), "env": {**kept, **env}})
        # The secrets are in no environment but the server's. A pipe takes 64 KiB; the guard reads at once.
        try:
            await asyncio.to_thread(_write_all, lifeline, start.encode() + b"\n")
        except BaseException as error:
            await child.stop()
            if isinstance(error, OSError):
                raise ServerAway(f"its process has ended at once: {error.strerror}") from None
            raise
        return child

    @property
    def input(self) -> asyncio.StreamWriter:
        """Its standard input."""
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def output(self) -> asyncio.StreamReader:
        """Its standard output."""
        assert self._process.stdout is not None
        return self._process.stdout

    async def end_reason(self) -> str:
        """Wait for the end of the server, at most `CLOSE_SECONDS`; return how it ended, in the words of a message."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._errors), CLOSE_SECONDS)
            await asyncio.wait_for(self._process.wait(), CLOSE_SECONDS)
        code = self._process.returncode
        if code is None:
            return "it closed its output"
        if code == guard.NOT_STARTED and self.last_line:
            return self.last_line
        said = f": {self.last_line}" if self.last_line else ""
        return f"it ended ({_exit_text(code)}){said}{_service_hint(code)}"

    async def stop(self) -> None:
        """End the server: its input is closed, and what runs after `CLOSE_SECONDS` is killed."""
        self.input.close()
        # Also because the event loop waits for the ends of both outputs.
        reading = asyncio.create_task(self._read_on(), name=f"rest of the output of mcp server {self._process.pid}")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), CLOSE_SECONDS)
        self._close_lifeline()
        if self._process.returncode is None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), guard.KILL_SECONDS + 1)
        # The guard itself may have been killed.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await asyncio.wait({reading, self._errors}, timeout=CLOSE_SECONDS)
        reading.cancel()
        self._errors.cancel()
        await asyncio.gather(reading, self._errors, return_exceptions=True)

    async def _read_on(self) -> None:
        """Read the output to its end, so that a server that writes can end."""
        while await self.output.read(1 << 16):
            continue

    def _close_lifeline(self) -> None:
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1

    async def _read_errors(self) -> None:
        """Pass the lines of its error output on, as many as may be, and keep the last one."""
        assert self._process.stderr is not None
        loop = asyncio.get_running_loop()
        minute, passed, rest = loop.time(), 0, b""
        while part := await self._process.stderr.read(1 << 14):
            *lines, rest = (rest + part).split(b"\n")
            rest = rest[: LONGEST_LINE * 4]
            if loop.time() - minute >= 60:
                minute, passed = loop.time(), 0
            said = [line for line in lines if line.strip()]
            shown = said[: LINES_PER_MINUTE - passed]
            passed += len(shown)
            for line in shown:
                self.last_line = self._readable(line)
                self._on_line(self.last_line)
            if len(shown) < len(said):
                self.last_line = self._readable(said[-1])
            if passed == LINES_PER_MINUTE or not said:
                await asyncio.sleep(SLOW_SECONDS)

    def _readable(self, line: bytes) -> str:
        # Masked before it is cut, which could leave a part of a secret.
        return self._masked(line[: LONGEST_LINE * 4].decode("utf-8", "replace").strip())[:LONGEST_LINE]


def _write_all(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]


def _exit_text(code: int) -> str:
    """Return an exit code of the guard in words."""
    number = -code if code < 0 else code - 128
    if number > 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(number).name
    return f"exit code {code}"


def _service_hint(code: int) -> str:
    """Return what of the service manager's settings may have stopped a server, as the end of a message."""
    found = []
    if code != 0 and refuses_executable_memory():
        found.append("MemoryDenyWriteExecute=yes of the service stops programs such as Node")
    home = os.environ.get("HOME")
    if code != 0 and (home is None or not os.access(home, os.W_OK)):
        found.append("the service has no home folder that can be written to, which npx needs (Environment=HOME=…)")
    return "".join(f"; {each}" for each in found)


def refuses_executable_memory() -> bool:
    """Return True if this process and its children may not have memory that is written and executed."""
    try:
        mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close()
    except OSError:
        return True
    return False
