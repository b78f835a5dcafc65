"""Structured logs on standard error: readable on a terminal, one JSON object a line elsewhere."""

from __future__ import annotations

import logging
import os
import select
import sys
from collections.abc import Mapping, MutableMapping
from io import StringIO
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final, Literal, TextIO
from weakref import WeakSet

import structlog
from aiohttp import web
from structlog.typing import ExcInfo

from runtime.http.aiohttp_private import HttpProcessingError

OURS = ("symbiont", "runtime", "dslc")

Form = Literal["auto", "text", "json"]
Level = Literal["debug", "info", "warning", "error"]


MOST_LINES: Final = 10_000
"""Number of waiting entries from which on further ones are dropped, until half of them are written."""
CLOSE_SECONDS: Final = 1.0
"""Seconds for which the end waits for the waiting entries."""

log = structlog.get_logger("symbiont.log")


def configure(form: Form, level: Level = "info") -> None:
    """Send all log entries of at least `level`, including those of libraries, through structlog to standard error.

    Debug entries of libraries are never logged: they show SQL statements with their values, and headers.
    """
    shared: list[Any] = [
        # Adds the current delivery to each entry that is logged while it is handled.
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _on_one_line,
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = LogWriter(sys.stderr.fileno(), sys.stderr.encoding)
    kind = _JournalFormatter if _is_journal(os.environ, sys.stderr.fileno()) else structlog.stdlib.ProcessorFormatter
    handler.setFormatter(
        kind(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_renderer(form)],
        )
    )
    for former in logging.getLogger().handlers:
        if isinstance(former, LogWriter):
            former.close()
    logging.getLogger().handlers[:] = [handler]
    _set_levels(logging.getLevelNamesMapping()[level.upper()])


class LogWriter(logging.Handler):
    """Writes entries to a descriptor in a thread of its own: no thread that logs waits for a pipe that nobody reads."""

    def __init__(self, descriptor: int, encoding: str = "utf-8") -> None:
        super().__init__()
        self._descriptor = descriptor
        self._encoding = encoding
        self._closed = False
        self.reset()
        _WRITERS.add(self)

    def reset(self) -> None:
        """Begin without waiting entries and without a thread: a forked process has none, and its parent writes them."""
        # `put` of a SimpleQueue may be interrupted by a finalizer that logs too (library reference, queue).
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self._dropped = 0
        self._thread: Thread | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Queue an entry. It is rendered here, where its context variables are."""
        if self._closed:
            # No thread can be started while the interpreter ends.
            return
        if self._lines.qsize() >= (MOST_LINES // 2 if self._dropped else MOST_LINES):
            self._dropped += 1
            return
        if self._dropped:
            count, self._dropped = self._dropped, 0
            log.error("log_entries_dropped", count=count)
        try:
            line = f"{self.format(record)}\n".encode(self._encoding, "backslashreplace")
        except Exception:
            self.handleError(record)
            return
        self._lines.put(line)
        if self._thread is None:
            # A daemon thread: the interpreter does not wait for it while it writes.
            self._thread = Thread(target=self._write, name="log writer", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Write the waiting entries; those that cannot be written within `CLOSE_SECONDS` are lost."""
        super().close()
        self._closed = True
        if self._thread is not None:
            self._lines.put(None)
            self._thread.join(CLOSE_SECONDS)
            self._thread = None

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            # Not through `sys.stderr`, whose lock a blocked thread would hold at the end of the interpreter.
            rest = memoryview(line)
            while rest:
                try:
                    rest = rest[os.write(self._descriptor, rest) :]
                except BlockingIOError:
                    select.select([], [self._descriptor], [])
                except OSError:
                    break


_WRITERS: Final[WeakSet[LogWriter]] = WeakSet()


def _reset() -> None:
    for writer in _WRITERS:
        writer.reset()


os.register_at_fork(after_in_child=_reset)


class _JournalFormatter(structlog.stdlib.ProcessorFormatter):
    """Renders lines with a severity prefix for journald, which removes it (sd-daemon(3))."""

    def format(self, record: logging.LogRecord) -> str:
        prefix = f"<{_SYSLOG.get(record.levelno, 6)}>"
        return "\n".join(prefix + line for line in super().format(record).split("\n"))


_SYSLOG = {logging.CRITICAL: 2, logging.ERROR: 3, logging.WARNING: 4, logging.INFO: 6, logging.DEBUG: 7}


def _is_journal(environ: Mapping[str, str], descriptor: int) -> bool:
    """True if `descriptor` is the connection to journald that JOURNAL_STREAM names (systemd.exec(5))."""
    status = os.fstat(descriptor)
    return environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def _renderer(form: Form) -> list[Any]:
    """Return the processors that render entries."""
    readable = sys.stderr.isatty() if form == "auto" else form == "text"
    if not readable:
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    return [
        structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(),
            pad_event_to=0,
            # structlog's default shows the local variables of every frame; some of those are keys and bodies.
            exception_formatter=_traceback,
        )
    ]


def _set_levels(least: int) -> None:
    """Set levels: `least` for this program; for libraries the configured one, or a higher one for noisy ones."""
    logging.getLogger().setLevel(max(least, logging.INFO))
    for name in OURS:
        logging.getLogger(name).setLevel(least)
    server = logging.getLogger("aiohttp.server")
    server.filters[:] = [_is_our_fault]
    logging.getLogger("alembic").setLevel(logging.WARNING)
    # It logs a line for every call to Qdrant.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    # It logs a line for each session of `/mcp`, with its id, and a warning for each refused message.
    logging.getLogger("mcp").setLevel(logging.ERROR)
    # A line for each change would cause another change if the log is written into a watched folder.
    logging.getLogger("watchfiles").setLevel(logging.WARNING)


def _on_one_line(_logger: object, _method: str, entry: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Escape the control characters of an entry, so that text from a request cannot begin a line or control the
    terminal."""
    for name, value in entry.items():
        if isinstance(value, str):
            entry[name] = _printable(value)
    return entry


def _traceback(output: TextIO, error: ExcInfo) -> None:
    """Write a traceback, indented: the message of an error may have what a sender or a service said, in lines."""
    whole = StringIO()
    structlog.dev.plain_traceback(whole, error)
    output.write("\n".join(f"  {_printable(line)}" for line in whole.getvalue().split("\n")))


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def _is_our_fault(record: logging.LogRecord) -> bool:
    """Return False for malformed HTTP: it is the sender's error, answered with 400, and needs no traceback."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError | web.RequestPayloadError)
