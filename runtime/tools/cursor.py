"""Cursors of lists: opaque text, so that clients do not depend on its content."""

from __future__ import annotations

import base64
import binascii
import json

from runtime.errors import UsageError

LONGEST = 200


def write_cursor(*parts: int | str) -> str:
    """Return the cursor for `parts`: the sort key of the last row that was returned."""
    return base64.urlsafe_b64encode(json.dumps(parts, separators=(",", ":")).encode()).decode().rstrip("=")


def read_cursor(cursor: str, *kinds: type[int] | type[str], longest: int = LONGEST) -> tuple[int | str, ...]:
    """Return the parts of a cursor. Raises UsageError for a text that `write_cursor` did not write with parts of these
    types."""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        parts = json.loads(raw)
        fits = isinstance(parts, list) and len(parts) == len(kinds) and len(cursor) <= longest
        # `type` instead of `isinstance`: True is not a number here. A number must fit the column that it is compared
        # with.
        if not fits or any(type(part) is not kind for part, kind in zip(parts, kinds, strict=True)):
            raise ValueError
        if any(isinstance(part, int) and not 0 <= part < 2**63 for part in parts):
            raise ValueError
        if any(isinstance(part, str) and not (part.isascii() and part.isprintable()) for part in parts):
            raise ValueError
    except (ValueError, binascii.Error, RecursionError):
        raise UsageError("the cursor is not from a previous answer", hint="start without a cursor") from None
    return tuple(parts)
