"""The worker processes, as the daemon sees them."""

from __future__ import annotations

import asyncio
import errno
import socket
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from runtime.errors import SymbiontError
from runtime.tables.errors import LOOK_FIRST, TablesUnavailable
from runtime.tables.sqlite import messages
from runtime.tables.sqlite.messages import Answer, PendingChange, Size, ToWorker
from runtime.workers.frames import TooLong
from runtime.workers.process import start_worker

COMMIT_SECONDS: Final = 60.0
"""Maximum seconds until a change is on disk."""
_FORK_SECONDS: Final = 60.0
_EXIT_SECONDS: Final = 10.0
_TEMPLATE: Final = "runtime.tables.sqlite.template"
_DISCONNECTED: Final = (EOFError, OSError, msgspec.DecodeError, TooLong)
"""Errors of reading from a worker that has ended, or sends something else than messages."""


OnGrowth = Callable[[Size], Awaitable[None]]


async def _allow(_size: Size) -> None:
    return


async def _refusal(on_growth: OnGrowth, size: Size) -> SymbiontError | None:
    try:
        await on_growth(size)
    except SymbiontError as error:
        return error
    return None


class WorkerTimeout(TablesUnavailable):
    """The worker was killed, because it did not answer in time."""


class NotReceived(TablesUnavailable):
    """The worker ended before it read the message."""


class Worker:
    """A process with the file of one user. Send one message at a time."""

    def __init__(
        self, template: socket.socket, number: int, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    ) -> None:
        """`template`: the socket to the one that has forked it."""
        self._template = template
        self._number = number
        self._reader, self._writer = streams
        self._has_ended = False

    @property
    def alive(self) -> bool:
        """False if the process has ended."""
        return not self._has_ended and not self._reader.at_eof() and self._reader.exception() is None

    async def ask(self, message: ToWorker, seconds: float, on_growth: OnGrowth = _allow) -> Answer:
        """Return the answer. `on_growth` is asked before a change of the size is committed; what it raises is raised
        after the change was taken back.

        Raises WorkerTimeout after `seconds`, and NotReceived or TablesUnavailable if the process ends; then it has
        ended, and nothing has changed, unless the error is `maybe_done`. TooLong: nothing was sent. If this is
        cancelled, the process is unusable.
        """
        content = messages.TO_WORKER.encode(message)
        is_committing = False
        refusal: SymbiontError | None = None
        try:
            async with asyncio.timeout(seconds) as limit:
                self._writer.write(content)
                while isinstance(answer := await messages.FROM_WORKER.read(self._reader), PendingChange):
                    limit.reschedule(asyncio.get_running_loop().time() + COMMIT_SECONDS)
                    if answer.asks:
                        refusal = await _refusal(on_growth, answer.size)
                        self._writer.write(messages.TO_WORKER.encode(messages.Commit(refusal is None)))
                    is_committing = refusal is None
            if refusal is not None:
                raise refusal
            return answer
        except TimeoutError:
            failed: TablesUnavailable = WorkerTimeout("the worker of your tables did not answer in time")
        except _DISCONNECTED as error:
            # A socket is reset, or broken, only if the process ended before it read all that was sent.
            kind = NotReceived if isinstance(error, OSError) and not is_committing else TablesUnavailable
            failed = kind("the worker of your tables ended before it answered", hint="try again")
        try:
            await self.kill()
        except TablesUnavailable as alive:
            failed = alive
        if is_committing:
            failed.maybe_done, failed.hint = True, LOOK_FIRST
        raise failed

    async def close(self, seconds: float) -> None:
        """Let the process close the file and end. It is killed after `seconds`."""
        with suppress(OSError):
            self._writer.write(messages.TO_WORKER.encode(messages.Close()))
        with suppress(TimeoutError):
            await self._wait_for_end(seconds)
        await self.kill()

    async def kill(self) -> None:
        """Kill the process. On return it has ended. Raises TablesUnavailable if it does not end."""
        with suppress(OSError):
            self._template.send(messages.control(self._number))
        try:
            await self._wait_for_end(_EXIT_SECONDS)
        except TimeoutError:
            raise TablesUnavailable("the worker of your tables does not end", hint="check the disk") from None
        finally:
            self._writer.close()

    async def _wait_for_end(self, seconds: float) -> None:
        """Wait for the end of the process: its end of the socket is closed with all its files."""
        async with asyncio.timeout(seconds):
            with suppress(OSError):
                while await self._reader.read(1 << 16):
                    pass
        self._has_ended = True


class Template:
    """The process that workers are forked from. It starts with the first worker, and again if it has ended."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._channel: socket.socket | None = None
        self._forking = asyncio.Lock()
        self._closed = False

    async def fork(self) -> Worker:
        """Return a new worker. Raises TablesUnavailable."""
        ours, theirs = socket.socketpair()
        try:
            async with self._forking:
                try:
                    channel, number = await self._fork(theirs)
                except ConnectionError:  # it had ended
                    channel, number = await self._fork(theirs)
            if not number:
                raise TablesUnavailable("no worker for your tables can be started", hint="too many processes run")
            return Worker(channel, number, await asyncio.open_unix_connection(sock=ours))
        except OSError as error:
            ours.close()
            reason = error.strerror or "it takes too long"
            raise TablesUnavailable(f"no worker for your tables can be started: {reason}") from None
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()

    async def close(self) -> None:
        """End the process, and with it every worker. No other one starts."""
        self._closed = True
        if self._channel is not None:
            self._channel.close()
        if self._process is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_EXIT_SECONDS):
                    await self._process.wait()
            await self._kill()

    async def _fork(self, theirs: socket.socket) -> tuple[socket.socket, int]:
        """Have a worker forked for this socket. Return the socket to the template, and the worker's process; 0: that is
        not possible. A template that does not answer is killed. Raises ConnectionError if it has ended."""
        if self._closed:
            raise TablesUnavailable("the program stops")
        try:
            async with asyncio.timeout(_FORK_SECONDS):
                if self._channel is None:
                    self._process, self._channel = await start_worker(_TEMPLATE, Path("/"))
                socket.send_fds(self._channel, [messages.control()], [theirs.fileno()])
                answer = await asyncio.get_running_loop().sock_recv(self._channel, messages.CONTROL_BYTES)
            if not answer:
                raise ConnectionResetError(errno.ECONNRESET, "the template has ended")
            return self._channel, int.from_bytes(answer, "big")
        except BaseException:
            await self._kill()
            raise

    async def _kill(self) -> None:
        if self._channel is not None:
            self._channel.close()
        process, self._process, self._channel = self._process, None, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
