"""The worker processes, as the daemon sees them."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from runtime.errors import SymbiontError
from runtime.tables.errors import LOOK_FIRST, TablesUnavailable
from runtime.tables.sqlite import messages
from runtime.tables.sqlite.messages import Answer, Committing, FromWorker, Size, ToWorker

COMMIT_SECONDS: Final = 60.0
"""Maximum seconds until a change is on disk."""
_FORK_SECONDS: Final = 60.0
_EXIT_SECONDS: Final = 10.0
_INHERITED: Final = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Variables that the processes get: no others, because they contain secrets."""
_DISCONNECTED: Final = (EOFError, OSError, msgspec.DecodeError, messages.TooLong)
"""What reading from a worker raises that has ended, or sends something else than messages."""


OnGrowth = Callable[[Size], Awaitable[None]]


async def _allow(_size: Size) -> None:
    return


async def _refusal(on_growth: OnGrowth, size: Size) -> SymbiontError | None:
    try:
        await on_growth(size)
    except SymbiontError as error:
        return error
    return None


class Late(TablesUnavailable):
    """The worker was killed, because it did not answer in time."""


class NotReceived(TablesUnavailable):
    """The worker ended before it read the message."""


class Worker:
    """A process with the file of one user. Send one message at a time."""

    def __init__(
        self, template: Template, number: int, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    ) -> None:
        self._template = template
        self._number = number
        self._reader, self._writer = streams

    @property
    def alive(self) -> bool:
        """False if the process has ended."""
        return not self._reader.at_eof() and self._template.has(self._number)

    async def ask(self, message: ToWorker, seconds: float, on_growth: OnGrowth = _allow) -> Answer:
        """Return the answer. `on_growth` is asked before a change of the size is committed; what it raises is raised
        after the change was taken back.

        Raises Late after `seconds`, and NotReceived or TablesUnavailable if the process ends; then it has ended, and
        nothing has changed, unless the error is `maybe_done`. TooLong: nothing was sent. If this is cancelled, the
        process is unusable.
        """
        content = messages.encode(message)
        is_committing = False
        refusal: SymbiontError | None = None
        try:
            async with asyncio.timeout(seconds) as limit:
                self._writer.write(content)
                while isinstance(answer := await self._receive(), Committing):
                    limit.reschedule(asyncio.get_running_loop().time() + COMMIT_SECONDS)
                    if answer.asks:
                        refusal = await _refusal(on_growth, answer.size)
                        self._writer.write(messages.encode(messages.Commit(refusal is None)))
                    is_committing = refusal is None
            if refusal is not None:
                raise refusal
            return answer
        except TimeoutError:
            failed: TablesUnavailable = Late("the worker of your tables did not answer in time")
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
            self._writer.write(messages.encode(messages.Close()))
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._template.ended(self._number)
        await self.kill()

    async def kill(self) -> None:
        """Kill the process. On return it has ended. Raises TablesUnavailable if it does not end."""
        self._writer.close()
        self._template.kill(self._number)
        try:
            async with asyncio.timeout(_EXIT_SECONDS):
                await self._template.ended(self._number)
        except TimeoutError:
            raise TablesUnavailable("the worker of your tables does not end", hint="check the disk") from None

    async def _receive(self) -> FromWorker:
        head = await self._reader.readexactly(messages.LENGTH_BYTES)
        return messages.from_worker(await self._reader.readexactly(messages.length(head)))


class Template:
    """The process that workers are forked from. It starts with the first worker, and again if it has ended."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._channel: socket.socket | None = None
        self._reading: asyncio.Task[None] | None = None
        self._forking = asyncio.Lock()
        self._asked: deque[asyncio.Future[int]] = deque()
        """Workers that the template was asked for, in the order of its answers; a cancelled one is wanted no more."""
        self._running: dict[int, asyncio.Event] = {}
        self._closed = False

    async def fork(self) -> Worker:
        """Return a new worker. Raises TablesUnavailable."""
        ours, theirs = socket.socketpair()
        try:
            async with self._forking, asyncio.timeout(_FORK_SECONDS):
                try:
                    number = await self._forked(theirs)
                except ConnectionError:
                    # The template has ended, perhaps before it was asked.
                    await self._gone()
                    number = await self._forked(theirs)
            if not number:
                raise TablesUnavailable("no worker for your tables can be started", hint="too many processes run")
            return Worker(self, number, await asyncio.open_unix_connection(sock=ours))
        except OSError as error:
            ours.close()
            reason = error.strerror or "it takes too long"
            raise TablesUnavailable(f"no worker for your tables can be started: {reason}") from None
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()

    def has(self, number: int) -> bool:
        """True if this worker has not ended."""
        return number in self._running

    async def ended(self, number: int) -> None:
        """Wait for the end of a worker."""
        if (event := self._running.get(number)) is not None:
            await event.wait()

    def kill(self, number: int) -> None:
        """Kill a worker. Nothing happens if it has ended."""
        if number in self._running and self._channel is not None:
            with suppress(OSError):
                self._channel.send(messages.control(b"K", number))

    async def close(self) -> None:
        """End the process, and with it every worker. No other one starts."""
        self._closed = True
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        self._stopped()
        if self._process is not None:
            try:
                async with asyncio.timeout(_EXIT_SECONDS):
                    await self._process.wait()
            except TimeoutError:
                self._process.kill()
                await self._process.wait()

    async def _forked(self, theirs: socket.socket) -> int:
        """Have a worker forked for this socket, and return its process; 0: that is not possible. Raises ConnectionError
        if the template has ended."""
        channel = await self._started()
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        socket.send_fds(channel, [messages.control(b"F")], [theirs.fileno()])
        self._asked.append(answer)
        return await answer

    async def _gone(self) -> None:
        if self._reading is not None:
            await asyncio.gather(self._reading, return_exceptions=True)

    async def _started(self) -> socket.socket:
        if self._closed:
            raise TablesUnavailable("the program stops")
        if self._channel is not None:
            return self._channel
        if self._process is not None:
            await self._process.wait()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                # Not even the folder it starts in adds modules.
                "-P",
                "-m",
                "runtime.tables.sqlite.template",
                stdin=theirs.fileno(),
                stdout=DEVNULL,
                stderr=DEVNULL,
                cwd="/",
                env=_environment(),
                # No signal of the terminal reaches it: the daemon ends it.
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._channel = ours
        self._reading = asyncio.create_task(self._read(ours), name="tables: template")
        return ours

    async def _read(self, channel: socket.socket) -> None:
        """Note what the template says until it ends."""
        loop = asyncio.get_running_loop()
        rest = b""
        with suppress(OSError):
            while content := await loop.sock_recv(channel, 1 << 12):
                rest += content
                while len(rest) >= messages.CONTROL_BYTES:
                    kind, number, rest = (
                        rest[:1],
                        int.from_bytes(rest[1 : messages.CONTROL_BYTES], "big"),
                        rest[messages.CONTROL_BYTES :],
                    )
                    if kind == b"F":
                        self._answered(number)
                    elif (event := self._running.pop(number, None)) is not None:
                        event.set()
        self._stopped()

    def _answered(self, number: int) -> None:
        """Note a new worker, and give it to whom asked for it."""
        if number:
            self._running[number] = asyncio.Event()
        answer = self._asked.popleft()
        if answer.done():
            self.kill(number)
        else:
            answer.set_result(number)

    def _stopped(self) -> None:
        """Note that the template has ended, or let it end: its workers end with it."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        for event in self._running.values():
            event.set()
        self._running.clear()
        while self._asked:
            if not (answer := self._asked.popleft()).done():
                answer.set_exception(ConnectionResetError(errno.ECONNRESET, "the template has ended"))


def _environment() -> dict[str, str]:
    """Return the variables of the processes. They import from the same places as this one."""
    kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return kept | {"PYTHONPATH": os.pathsep.join(str(Path(place).absolute()) for place in sys.path)}
