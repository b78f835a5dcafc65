"""A worker process, as the daemon sees it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import tempfile
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from runtime.models.local.chat import cleaned_body, text_cleaner
from runtime.models.local.worker import SOCKET, Start
from runtime.models.model import ModelUnavailable
from runtime.outbound.http import CallFailed, HttpCaller
from runtime.workers.process import start_worker

CANCEL_SECONDS: Final = 30.0
"""Seconds after which a worker that does not stop a cancelled answer is killed."""
SERVER: Final = "http://llama.cpp"
"""The address of the worker's server. Its name is that in messages; the connection is to the socket."""
_EXIT_SECONDS: Final = 5.0
_UNLIMITED_SECONDS: Final = 86_400.0
"""Seconds of a call: `Runner` has the limits, which are shorter."""
_LAST: Final = b"[DONE]"
_NOT_LOADED: Final = "error loading model: "
"""The words of the library before the reason: each line is time, level, function and message."""


class WorkerProcess:
    """A process with a loaded model. It answers one request at a time, in order.

    Use `start`, and `close` it. It shares no descriptors with the daemon but its end of a socket pair, is in a session
    of its own, and ends with the daemon. If it ends by itself, `alive` is False and every open request fails.
    """

    def __init__(self, process: Process, errors: BinaryIO, caller: HttpCaller) -> None:
        self._process = process
        self._errors = errors
        self._caller = caller
        self._clean: Callable[[str], str] = str
        self._cancelled: set[asyncio.Task[None]] = set()
        """Waits for the worker to stop cancelled answers."""
        self._resources = AsyncExitStack()
        self._killed = False

    @property
    def alive(self) -> bool:
        """False if the process has ended, or no other request is sent to it."""
        return self._process.returncode is None and not self._killed

    @classmethod
    async def start(cls, path: Path, window: int, threads: int) -> WorkerProcess:
        """Start a process and load the model. Raises ModelUnavailable. If this is cancelled, the process ends."""
        async with AsyncExitStack() as resources:
            folder = Path(tempfile.mkdtemp(prefix="symbiont-model-"))
            resources.callback(shutil.rmtree, folder, ignore_errors=True)
            errors = resources.enter_context(tempfile.TemporaryFile("a+b"))  # noqa: SIM115 - closed with the process
            try:
                process, channel = await start_worker("runtime.models.local.worker", folder, errors)
            except OSError as error:
                raise ModelUnavailable(f"the worker of the model local cannot be started: {error.strerror}") from None
            resources.callback(channel.close)
            caller = HttpCaller(socket=_short_path(folder, resources) / SOCKET)
            resources.push_async_callback(caller.close)
            worker = cls(process, errors, caller)
            resources.push_async_callback(worker._stop)
            await worker._load(channel, Start(path=str(path), window=window, threads=threads, parent=os.getpid()))
            worker._resources = resources.pop_all()
        return worker

    async def lines(self, body: dict[str, Any]) -> AsyncGenerator[bytes, None]:
        """Yield the lines of the answer to a streamed completion. Closing the generator cancels the request. Raises
        ModelUnavailable if the process ends, CallFailed."""
        answered = False
        calling = self._caller.post_lines(
            f"{SERVER}/v1/chat/completions",
            cleaned_body(body, self._clean),
            part_seconds=_UNLIMITED_SECONDS,
            timeout_seconds=_UNLIMITED_SECONDS,
        )
        try:
            async with aclosing(calling) as lines:
                async for line in lines:
                    answered = answered or line.endswith(_LAST)
                    yield line
        except CallFailed as failure:
            answered = True
            await self._raise_if_ended(failure)
            raise
        finally:
            if not answered and self.alive:
                self._cancel()
            with contextlib.suppress(ValueError):  # closed
                self._errors.truncate(0)

    async def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text; a control token in it counts as text, as in a message. Raises
        ModelUnavailable, CallFailed."""
        return [len((await self._tokenize(text))["tokens"]) for text in texts]

    async def close(self) -> None:
        """End the process, and with it every open request. It has nothing to finish, so it is killed."""
        await self._resources.aclose()

    async def _tokenize(self, text: str) -> Mapping[str, Any]:
        asked = {"content": text, "add_special": False, "parse_special": False}
        try:
            found: Mapping[str, Any] = await self._caller.post_json(
                f"{SERVER}/tokenize", asked, timeout_seconds=_UNLIMITED_SECONDS, tries=1
            )
        except CallFailed as failure:
            await self._raise_if_ended(failure)
            raise
        return found

    async def _load(self, channel: socket.socket, start: Start) -> None:
        loop, received = asyncio.get_running_loop(), bytearray()
        with contextlib.suppress(OSError):
            await loop.sock_sendall(channel, msgspec.json.encode(start) + b"\n")
            while not received.endswith(b"\n") and (part := await loop.sock_recv(channel, 1 << 16)):
                received += part
        if not received.endswith(b"\n"):
            await self._wait_for_exit()
            _, not_loaded, reason = _text(self._errors).partition(_NOT_LOADED)
            if not_loaded or (self._process.returncode or 0) > 0:
                reason = reason.partition("\n")[0].strip() or _last_line(self._errors)
                raise ModelUnavailable(f"the model local cannot load {start.path}: {reason}")
            raise self._exit_error("while it loaded the model")
        self._clean = text_cleaner(msgspec.json.decode(received, type=list[str]))

    def _cancel(self) -> None:
        """Kill the worker if it does not go on to other requests. It notices by itself that nobody reads an answer."""
        task = asyncio.create_task(self._wait_for_stop(), name=f"model local: cancel in {self._process.pid}")
        self._cancelled.add(task)
        task.add_done_callback(self._cancelled.discard)

    async def _wait_for_stop(self) -> None:
        try:
            # Answered between two tokens, or two batches of a prompt.
            await self._caller.get_json(f"{SERVER}/slots", timeout_seconds=CANCEL_SECONDS)
        except CallFailed:
            self._kill()

    def _kill(self) -> None:
        # A second signal could meet a process that has ended, and asyncio would lose its exit code.
        if self.alive:
            self._killed = True
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def _stop(self) -> None:
        """Kill the process, and wait for its end."""
        self._kill()
        await self._process.wait()
        await asyncio.gather(*self._cancelled)

    async def _wait_for_exit(self) -> None:
        """Wait for the end of a process that has closed a connection. One that goes on is killed."""
        try:
            async with asyncio.timeout(_EXIT_SECONDS):
                await self._process.wait()
        except TimeoutError:
            self._kill()
            await self._process.wait()

    async def _raise_if_ended(self, failure: CallFailed) -> None:
        """Raise ModelUnavailable if there was no answer, which only a process that has ended gives."""
        if failure.status is None:
            await self._wait_for_exit()
            raise self._exit_error("before it answered") from None

    def _exit_error(self, when: str) -> ModelUnavailable:
        """Return the error for a process that has ended, with its last line of output."""
        code = self._process.returncode
        how = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
        return ModelUnavailable(
            f"the worker of the model local ended {when} ({how})", hint=_last_line(self._errors) or None
        )


def _short_path(folder: Path, resources: AsyncExitStack) -> Path:
    """Return a short path of a folder, where there is one: that of a socket has at most 107 bytes (unix(7))."""
    descriptors = Path("/proc/self/fd")
    if not descriptors.is_dir():
        return folder
    descriptor = os.open(folder, os.O_RDONLY)
    resources.callback(os.close, descriptor)
    return descriptors / str(descriptor)


def _text(errors: BinaryIO) -> str:
    with contextlib.suppress(OSError, ValueError):
        errors.seek(max(0, errors.seek(0, os.SEEK_END) - (1 << 16)))
        return errors.read().decode("utf-8", "replace")
    return ""


def _last_line(errors: BinaryIO) -> str:
    return next((line.strip()[:300] for line in reversed(_text(errors).splitlines()) if line.strip()), "")
