"""Posts a signed delivery, as its sender would."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from runtime.errors import SymbiontError, UsageError


def post(url: str, headers: Iterable[tuple[str, str]], body: bytes, query: str = "") -> tuple[int, str, Any]:
    """Return status, reason and answer (JSON, else text). `query`: that of the URL, which no message shows. Raises
    UsageError for headers that cannot be sent."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "127.0.0.1", parts.port, timeout=30)
    try:
        connection.request("POST", f"{parts.path}?{query}" if query else parts.path, body, dict(headers))
        response = connection.getresponse()
        text = response.read().decode("utf-8", "replace")
    except ValueError:
        raise UsageError("--event and --delivery-id are sent in headers: give printable text in one line") from None
    except (OSError, http.client.HTTPException) as error:
        raise SymbiontError(
            f"{url} does not respond: {str(error) or type(error).__name__}", hint="is the daemon still running?"
        ) from None
    finally:
        connection.close()
    try:
        answer = json.loads(text)
    except ValueError:
        answer = text
    return response.status, response.reason, answer
