"""A worker process, as the daemon sees it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import signal
import tempfile
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from runtime.models.local import protocol
from runtime.models.model import ModelRefused, ModelUnavailable, WindowExceeded
from runtime.models.request import Reply, Request
from runtime.workers.frames import TooLong
from runtime.workers.process import start_worker

CANCEL_SECONDS: Final = 30.0
"""Seconds after which a worker that does not stop a cancelled answer is killed."""
_EXIT_SECONDS: Final = 5.0
_SOCKET: Final = "model.sock"

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_DISCONNECTED: Final = (EOFError, OSError, msgspec.DecodeError, TooLong)
"""What reading from a worker raises that has ended, or sends something else than messages."""


class WorkerProcess:
    """A process with a loaded model. It answers one request at a time, in order.

    Use `start`, and `close` it. It shares no descriptors with the daemon but its end of a socket pair, is in a session
    of its own, and ends with the daemon. If it ends by itself, `alive` is False and every open request fails.
    """

    def __init__(self, process: Process, streams: Streams, folder: Path, errors: BinaryIO) -> None:
        self._process = process
        self._reader, self._writer = streams
        self._folder = folder
        self._errors = errors
        self._ids = itertools.count(1)
        # Requests that the worker has not ended. None: the worker has ended instead.
        self._open: dict[int, asyncio.Queue[protocol.FromWorker | None]] = {}
        self._cancelled: dict[int, asyncio.TimerHandle] = {}
        self._reading: asyncio.Task[None] | None = None
        self._killed = False
        self.alive = True

    @classmethod
    async def start(cls, path: Path, window: int, threads: int) -> WorkerProcess:
        """Start a process and load the model. Raises ModelUnavailable. If this is cancelled, the process ends."""
        folder = Path(tempfile.mkdtemp(prefix="symbiont-model-"))
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        try:
            process, streams = await _spawn(folder, errors)
        except BaseException:
            errors.close()
            shutil.rmtree(folder, ignore_errors=True)
            raise
        worker = cls(process, streams, folder, errors)
        try:
            start = protocol.Start(path=str(path), window=window, threads=threads, socket=_SOCKET, parent=os.getpid())
            await worker._load(start)
        except BaseException:
            await worker.close()
            raise
        return worker

    async def stream(self, request: Request) -> AsyncGenerator[str | Reply, None]:
        """Yield the parts of the reply's text, then the reply. Closing the generator cancels the request. Raises
        ModelUnavailable, ModelRefused."""
        number = next(self._ids)
        content = _encoded(protocol.Ask(number, request))
        answers = self._opened(number)
        try:
            await self._send(content)
            while isinstance(answer := await answers.get(), protocol.Part):
                yield answer.text
            if not isinstance(answer, protocol.ReplyEnd):
                raise self._failure(answer)
            yield answer.reply
        finally:
            if self._open.pop(number, None) is not None and self.alive:
                self._cancel(number)

    async def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text. Raises ModelUnavailable."""
        number = next(self._ids)
        content = _encoded(protocol.Count(number, list(texts)))
        answers = self._opened(number)
        try:
            await self._send(content)
            answer = await answers.get()
        finally:
            self._open.pop(number, None)
        if not isinstance(answer, protocol.TokenCounts):
            raise self._failure(answer)
        return answer.tokens

    async def close(self) -> None:
        """End the process, and with it every open request. It has nothing to finish, so it is killed."""
        await self._stop()
        self._writer.close()
        if self._reading is not None:
            await self._reading
        self._errors.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _load(self, start: protocol.Start) -> None:
        try:
            await self._write(protocol.TO_WORKER.encode(start))
            loaded = await protocol.FROM_WORKER.read(self._reader)
        except _DISCONNECTED:
            await self._exited()
            raise self._ended("while it loaded the model") from None
        if isinstance(loaded, protocol.NotLoaded):
            raise ModelUnavailable(f"the model local cannot load {start.path}: {loaded.reason}")
        self._reading = asyncio.create_task(self._read(), name=f"model local: worker {self._process.pid}")

    async def _read(self) -> None:
        """Deliver the worker's messages until it ends."""
        try:
            while True:
                message = await protocol.FROM_WORKER.read(self._reader)
                if isinstance(message, protocol.ModelLoaded | protocol.NotLoaded):
                    continue
                self._deliver(message)
        except _DISCONNECTED:
            pass
        finally:
            await self._exited()
            self._fail_open()

    def _deliver(self, message: protocol.Answer) -> None:
        if message.id in self._open:
            self._open[message.id].put_nowait(message)
        if not isinstance(message, protocol.Part):
            self._open.pop(message.id, None)
            if message.id in self._cancelled:
                self._cancelled.pop(message.id).cancel()

    def _fail_open(self) -> None:
        for answers in self._open.values():
            answers.put_nowait(None)
        self._open.clear()
        for timer in self._cancelled.values():
            timer.cancel()
        self._cancelled.clear()

    async def _send(self, content: bytes) -> None:
        """Raises ModelUnavailable if the worker has ended."""
        try:
            await self._write(content)
        except OSError:
            await self._exited()
            raise self._ended("before it got the request") from None

    async def _write(self, content: bytes) -> None:
        self._writer.write(content)
        await self._writer.drain()

    def _opened(self, number: int) -> asyncio.Queue[protocol.FromWorker | None]:
        answers = asyncio.Queue[protocol.FromWorker | None]()
        if self.alive:
            self._open[number] = answers
        else:
            answers.put_nowait(None)
        return answers

    def _cancel(self, number: int) -> None:
        """Tell the worker that nobody waits for this answer. One that does not stop is killed."""
        self._writer.write(protocol.TO_WORKER.encode(protocol.Cancel(number)))
        self._cancelled[number] = asyncio.get_running_loop().call_later(CANCEL_SECONDS, self._abandon)

    def _abandon(self) -> None:
        """Kill the process: no other request is sent to it."""
        self.alive = False
        # A second signal could meet a process that has ended, and asyncio would lose its exit code.
        if not self._killed:
            self._killed = True
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def _exited(self) -> None:
        """Wait for the end of a process that has closed its connection. One that goes on is killed."""
        self.alive = False
        try:
            async with asyncio.timeout(_EXIT_SECONDS):
                await self._process.wait()
        except TimeoutError:
            await self._stop()

    async def _stop(self) -> None:
        """Kill the process, and wait for its end."""
        if self._process.returncode is None:
            self._abandon()
        self.alive = False
        await self._process.wait()

    def _failure(self, answer: protocol.FromWorker | None) -> Exception:
        match answer:
            case protocol.Failed(reason="window", message=message):
                return WindowExceeded(f"the model local: {message}")
            case protocol.Failed(reason="refused", message=message):
                return ModelRefused(f"the model local refuses the request: {message}")
            case protocol.Failed(message=message):
                return ModelUnavailable(f"the model local failed: {message}")
        return self._ended("before it answered")

    def _ended(self, when: str) -> ModelUnavailable:
        """Return the error for a process that has ended, with its last line of output."""
        code = self._process.returncode
        how = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
        return ModelUnavailable(
            f"the worker of the model local ended {when} ({how})", hint=_last_line(self._errors) or None
        )


async def _spawn(folder: Path, errors: BinaryIO) -> tuple[Process, Streams]:
    """Start a worker, and return the streams of the socket to it. Raises ModelUnavailable."""
    try:
        process, channel = await start_worker("runtime.models.local.worker", folder, errors)
    except OSError as error:
        raise ModelUnavailable(f"the worker of the model local cannot be started: {error.strerror}") from None
    try:
        return process, await asyncio.open_unix_connection(sock=channel)
    except BaseException:
        channel.close()
        process.kill()
        await process.wait()
        raise


def _encoded(message: protocol.ToWorker) -> bytes:
    try:
        return protocol.TO_WORKER.encode(message)
    except TooLong:
        raise WindowExceeded("the request to the model local is too long to be sent") from None


def _last_line(errors: BinaryIO) -> str:
    with contextlib.suppress(OSError, ValueError):
        size = errors.seek(0, os.SEEK_END)
        errors.seek(max(0, size - 4096))
        lines = errors.read().decode("utf-8", "replace").splitlines()
        return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")
    return ""
