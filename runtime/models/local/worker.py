"""The process of one model: `python -m runtime.models.local.worker`, with a socket to the daemon as standard input.

The main thread answers requests, one after the other. A second thread reads messages: it counts tokens, notes what is
cancelled, and ends the process when the daemon closes the socket or is killed. Only this process loads the library.
"""

from __future__ import annotations

import contextlib
import ctypes
import http.client
import json
import os
import queue
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from runtime.models.local import chat, protocol
from runtime.models.local.model_file import control_tokens

_NICENESS: Final = 10
_BATCH: Final = 128
"""Tokens of a prompt that are read at once: a cancelled request ends after at most two batches. On a processor 512 are
hardly faster."""
_CACHE_MIB: Final = 256
"""Maximum memory for the state of earlier prompts: a conversation that goes on is not read again from its start, also
when another one was answered in between."""
_ERRORS_ONLY: Final = 1
_SET_PARENT_DEATH_SIGNAL: Final = 1  # PR_SET_PDEATHSIG, prctl(2)


def main() -> None:
    """Serve until the daemon closes the socket."""
    channel = socket.socket(fileno=os.dup(0))
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - a descriptor is needed
        os.dup2(nothing.fileno(), 0)
    start = protocol.TO_WORKER.receive(channel)
    if not isinstance(start, protocol.Start):
        sys.exit("the first message must be Start")
    # The library holds the interpreter's lock while it loads: until then, only the kernel can end this process.
    _end_with_parent(signal.SIGKILL, start.parent)
    with contextlib.suppress(OSError):
        os.nice(_NICENESS)
    try:
        server = _load(start)
    except Exception as error:
        channel.sendall(protocol.FROM_WORKER.encode(protocol.NotLoaded(_reason() or str(error))))
        return
    signal.signal(signal.SIGTERM, lambda *_: _end())
    _end_with_parent(signal.SIGTERM, start.parent)
    _Worker(channel, server, start).run()


class _Worker:
    """Answers the messages of one daemon."""

    def __init__(self, channel: socket.socket, server: Any, start: protocol.Start) -> None:
        self._channel = channel
        self._server = server
        self._socket = start.socket
        self._clean = chat.as_text(control_tokens(Path(start.path)))
        self._asked: queue.SimpleQueue[protocol.Ask] = queue.SimpleQueue()
        self._open: set[int] = set()
        self._cancelled: set[int] = set()
        self._sending = threading.Lock()

    def run(self) -> None:
        threading.Thread(target=self._read, name="messages", daemon=True).start()
        self._send(protocol.ModelLoaded())
        while True:
            self._answer(self._asked.get())

    def _read(self) -> None:
        try:
            while True:
                match protocol.TO_WORKER.receive(self._channel):
                    case protocol.Ask() as ask:
                        self._open.add(ask.id)
                        self._asked.put(ask)
                    case protocol.Cancel(id=number):
                        if number in self._open:
                            self._cancelled.add(number)
                    case protocol.Count(id=number, texts=texts):
                        self._send(self._counted(number, texts))
                    case _:
                        break
        finally:
            _end()

    def _answer(self, ask: protocol.Ask) -> None:
        built = chat.ReplyBuilder()

        def stopping(chunk: object) -> bool:
            """Send what the chunk contains. True stops the generation."""
            text = built.add(chunk)
            if text:
                self._send(protocol.Part(ask.id, text))
            return ask.id in self._cancelled

        outcome: protocol.FromWorker
        try:
            if ask.id not in self._cancelled:
                self._server.handle_chat_completions(chat.body(ask.request, self._clean, _grammar), stopping)
            outcome = self._outcome(ask.id, built)
        except Exception as error:
            outcome = protocol.Failed(ask.id, "refused", str(error))
        _forget_errors()
        self._open.discard(ask.id)
        self._cancelled.discard(ask.id)
        self._send(outcome)

    def _outcome(self, number: int, built: chat.ReplyBuilder) -> protocol.FromWorker:
        if number in self._cancelled:
            return protocol.ReplyCancelled(number)
        if built.complete:
            return protocol.ReplyEnd(number, built.reply())
        # The library also stops, without an error, when `stopping` raises one.
        error = built.error or chat.Refusal("the reply ended in the middle")
        if error.type == "exceed_context_size_error":
            return protocol.Failed(number, "window", error.message)
        return protocol.Failed(number, "refused" if error.code < 500 else "failed", error.message)

    def _counted(self, number: int, texts: list[str]) -> protocol.FromWorker:
        try:
            return protocol.TokenCounts(number, _counts(texts, self._socket))
        except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
            return protocol.Failed(number, "failed", f"the tokens cannot be counted: {error!r}")

    def _send(self, message: protocol.FromWorker) -> None:
        with self._sending:
            self._channel.sendall(protocol.FROM_WORKER.encode(message))


def _load(start: protocol.Start) -> Any:
    """Return the library's server with the model loaded. It listens on a socket in this process's folder, which nobody
    else may enter."""
    import xllamacpp

    found = xllamacpp.CommonParams()
    found.model.path = start.path
    found.n_ctx = start.window
    found.n_batch = found.n_ubatch = _BATCH
    found.n_parallel = 1
    found.cpuparams.n_threads = found.cpuparams_batch.n_threads = start.threads
    found.cache_ram_mib = _CACHE_MIB
    # The daemon has chosen the window; the library would change it to fit the memory.
    found.fit_params = False
    found.warmup = False
    # An answer at the end of a conversation is history, not the beginning of the next one.
    found.prefill_assistant = False
    found.hostnames = [start.socket]
    found.n_threads_http = 4
    found.ui = False
    found.offline = True
    found.verbosity = _ERRORS_ONLY
    return xllamacpp.Server(found)


def _grammar(schema: Mapping[str, Any]) -> str:
    """Return the grammar of a JSON schema. Raises RuntimeError."""
    import xllamacpp

    return str(xllamacpp.json_schema_to_grammar(json.dumps(schema)))


class _Connection(http.client.HTTPConnection):
    """HTTP over the library's socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self._path)


def _counts(texts: list[str], path: str) -> list[int]:
    """Return the tokens of each text. A control token in it counts as text, as in a message."""
    connection = _Connection(path)
    found = []
    for text in texts:
        asked = json.dumps({"content": text, "add_special": False, "parse_special": False})
        connection.request("POST", "/tokenize", asked, {"Content-Type": "application/json"})
        found.append(len(json.loads(connection.getresponse().read())["tokens"]))
    connection.close()
    return found


def _end_with_parent(sent: signal.Signals, parent: int) -> None:
    """Send this process a signal when its parent ends; at once, if it has ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, int(sent), 0, 0, 0)
    if os.getppid() != parent:
        _end()


def _end() -> None:
    """End this process without waiting for the library, and remove its folder."""
    shutil.rmtree(Path.cwd(), ignore_errors=True)
    os._exit(0)


def _reason() -> str:
    """Return the last error that the library wrote while it loaded the model: each line is time, level, function and
    message."""
    with contextlib.suppress(OSError, ValueError):
        os.lseek(2, 0, os.SEEK_SET)
        for line in os.read(2, 1 << 16).decode("utf-8", "replace").splitlines():
            _, marked, message = line.partition("error loading model: ")
            if marked:
                return message.strip()
    return ""


def _forget_errors() -> None:
    """Empty the file of errors, so that it does not grow."""
    with contextlib.suppress(OSError):
        os.lseek(2, 0, os.SEEK_SET)
        os.ftruncate(2, 0)


if __name__ == "__main__":
    main()
