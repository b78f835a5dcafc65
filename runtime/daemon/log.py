"""Structured logs on standard error: readable on a terminal, one JSON object a line elsewhere."""

from __future__ import annotations

import logging
import sys
from typing import Any, Literal

import structlog


def configure(form: Literal["auto", "text", "json"], level: int = logging.INFO) -> None:
    """Send every log line from `level` on, those of libraries too, through structlog to standard error."""
    readable = sys.stderr.isatty() if form == "auto" else form == "text"
    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: list[Any] = (
        [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=0)]
        if readable
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # Malformed HTTP is the sender's fault, answered with 400; its traceback is nobody's business.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    logging.getLogger("alembic").setLevel(logging.WARNING)
