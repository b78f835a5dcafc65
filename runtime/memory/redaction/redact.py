"""Removes secrets from every text before it reaches a store or an index: each becomes `[REDACTED:type]`.

`PATTERNS` is everything that is known. They run on RE2, over the UTF-8 bytes of the text, in time linear in the text,
as long as a row's value always matches once its key has.
"""

from __future__ import annotations

from typing import Any

import re2

from runtime.memory.redaction.lookalikes import undisguised
from runtime.memory.redaction.named_secrets import SETTINGS
from runtime.memory.redaction.pattern import REDACTED, FoundSecret, Pattern
from runtime.memory.redaction.token_formats import FORMS

PATTERNS: tuple[Pattern, ...] = (*FORMS, *SETTINGS)
"""Every pattern, in the order in which they are tried: formats that name a service first, settings last."""

_MEMORY = 64 << 20  # bytes of memory that RE2 may use for one pattern before it becomes slower


def _compile(regex: bytes, *, groups: bool = True) -> Any:
    options = re2.Options()
    options.never_capture = not groups
    options.encoding = re2.Options.Encoding.LATIN1  # bytes as they are; the end of a match is always ASCII
    options.log_errors = False
    options.max_mem = _MEMORY
    return re2.compile(regex, options)


_COMPILED = tuple((pattern, _compile(pattern.regex)) for pattern in PATTERNS)
# Without groups: reporting that no group matched takes longer than searching a text.
_ANY_OF_THEM = _compile(b"|".join(rb"(?:" + pattern.regex + rb")" for pattern in PATTERNS), groups=False)


def redact(text: str) -> str:
    """Return `text` with every known secret replaced by `[REDACTED:type]`.

    Deterministic and idempotent. A text with a disguised secret is returned undisguised.
    """
    clean = _redact_undisguised(text)
    plain = undisguised(clean)
    found = clean if plain == clean else _redact_undisguised(plain)
    return clean if found == plain else found


def _redact_undisguised(text: str) -> str:
    """Replace undisguised secrets until another pass finds nothing. It terminates: every pass that changes something
    leaves fewer characters outside markers."""
    given = data = text.encode("utf-8", "surrogatepass")
    while _ANY_OF_THEM.search(data) is not None:
        before = data
        for pattern, regex in _COMPILED:
            data = _replace(pattern, regex, data)
        if data == before:
            break
    return text if data == given else data.decode("utf-8", "surrogatepass")


def _replace(pattern: Pattern, regex: Any, data: bytes) -> bytes:
    pieces, at = [], 0
    for match in regex.finditer(data):
        group = next((number for number in range(1, regex.groups + 1) if match.group(number) is not None), 0)
        start, end = match.span(group)
        done = REDACTED.match(data, start)
        if (done is not None and done.end() >= end) or not pattern.holds(FoundSecret(data, match.start(), start, end)):
            continue
        pieces += [data[at:start], b"[REDACTED:%s]" % pattern.type.encode()]
        at = end
    return b"".join([*pieces, data[at:]]) if pieces else data
