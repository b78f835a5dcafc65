"""Words of the admin socket's protocol, and the reading of its answers.

HTTP over a Unix socket. An answer is one JSON object; or, for a client that accepts `LINES`, lines of JSON:
`{"progress": [what, done, total]}`, `{"event": {…}}` and `{}` (a heartbeat), then `{"result": …}` or `{"error": …}`.
Clients load this module before they can answer anything, so it imports nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple

LINES: Final = "application/x-ndjson"
ABANDON_HEADER: Final = "X-Symbiont-Abandon"
"""Header of a request whose operation is cancelled when its connection ends."""
ROOT_HEADER: Final = "Symbiont-Root"
"""Header of requests and answers: the identity of the root."""
CLIENT_HEADER: Final = "Symbiont-Client"
"""Header of a request of a client of MCP, with the value `mcp`: for it, switches stop tools as they do over HTTP. The
commands of a person go on."""
MISDIRECTED: Final = 421
"""Status of an answer from the process of another root; nothing was done (RFC 9110 section 15.5.20)."""


class OperationOutcome(NamedTuple):
    """The end of an answer: a result, or the error object if it `failed`."""

    failed: bool
    content: Any


def read_line(
    line: bytes,
    progress: Callable[[str, int, int], None] | None,
    on_event: Callable[[dict[str, Any]], None] | None = None,
) -> OperationOutcome | None:
    """Return the outcome if this line of an answer is the last one; pass progress and events on. Raises ValueError."""
    read = json.loads(line)
    if "result" in read:
        return OperationOutcome(False, read["result"])
    if "error" in read:
        return OperationOutcome(True, read["error"])
    if "progress" in read and progress is not None:
        progress(*read["progress"])
    if "event" in read and on_event is not None:
        on_event(read["event"])
    return None


def read_whole(status: int, body: bytes) -> OperationOutcome:
    """Return the outcome of an answer that is one JSON object. Raises ValueError."""
    read = json.loads(body)
    return OperationOutcome(True, read.get("error", {})) if status >= 400 else OperationOutcome(False, read)
