"""Structured logs on standard error: readable on a terminal, one JSON object a line elsewhere."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, Literal

import structlog
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestPayloadError

OURS = ("symbiont", "runtime", "dslc")

Form = Literal["auto", "text", "json"]
Level = Literal["debug", "info", "warning", "error"]


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
    handler = logging.StreamHandler(sys.stderr)
    kind = _ForJournal if _is_journal(os.environ, sys.stderr.fileno()) else structlog.stdlib.ProcessorFormatter
    handler.setFormatter(
        kind(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_renderer(form)],
        )
    )
    logging.getLogger().handlers[:] = [handler]
    _set_levels(logging.getLevelNamesMapping()[level.upper()])


class _ForJournal(structlog.stdlib.ProcessorFormatter):
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
            exception_formatter=structlog.dev.plain_traceback,
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
        if isinstance(value, str) and not value.isprintable():
            entry[name] = "".join([each if each.isprintable() else repr(each)[1:-1] for each in value])
    return entry


def _is_our_fault(record: logging.LogRecord) -> bool:
    """Return False for malformed HTTP: it is the sender's error, answered with 400, and needs no traceback."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError | RequestPayloadError)
