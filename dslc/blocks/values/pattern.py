"""Regular expressions that match in linear time (RE2)."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

from dslc.blocks.values.invalid import Invalid

LONGEST = 1000
"""Maximum number of characters of a pattern."""

_MEMORY = 1 << 20  # bytes of a compiled pattern and its tables, so that a sender's text cannot grow them
_HINT = "such as `^release-`; look-around and back references are not in RE2"


def valid_pattern(pattern: str) -> str:
    """Return `pattern`. Raises Invalid, with RE2's reason, if RE2 does not accept it."""
    compile_pattern(pattern)
    return pattern


@lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> Any:
    """Compile `pattern`; `search(text)` of the result is None if there is no match. Raises Invalid as
    `valid_pattern`."""
    if not 0 < len(pattern) <= LONGEST:
        raise Invalid(f"a pattern has 1 to {LONGEST} characters", hint=_HINT, fault="bounds")
    import re2  # late: few programs have a pattern

    try:
        return re2.compile(pattern, _options())
    except UnicodeEncodeError as error:
        raise Invalid("a lone surrogate is not allowed in a pattern", part=(error.start, error.end)) from None
    except re2.error as error:
        raise Invalid(f"not a pattern of RE2: {_reason(error)}", hint=_HINT) from None


@cache
def _options() -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True  # only the presence of a match is needed
    options.max_mem = _MEMORY
    return options


def _reason(error: Exception) -> str:
    given = error.args[0] if error.args else ""
    text = given.decode("utf-8", "replace") if isinstance(given, bytes) else str(given)
    return text if text.isprintable() else text.partition(":")[0]
