"""Names and values of HTTP headers."""

from __future__ import annotations

import re

from dslc.blocks.values.invalid import Invalid
from dslc.blocks.values.secret import is_reference, valid_secret

TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]"  # noqa: S105 - "token" is the grammar's term
_NAME = re.compile(TOKEN + "+")
_NOT_IN_VALUE = re.compile(r"[^\t -~]")
LONGEST = 128


def valid_header_name(name: str) -> str:
    """Return `name`. Raises Invalid unless it is a valid header name (RFC 9110 section 5.6.2)."""
    if not 0 < len(name) <= LONGEST:
        raise Invalid(f"a header's name has 1 to {LONGEST} characters", hint="such as `X-Event`", fault="bounds")
    match = _NAME.match(name)
    end = match.end() if match else 0
    if end < len(name):
        raise Invalid("this character is not allowed in a header's name", hint="such as `X-Event`", part=(end, end + 1))
    return name


def valid_header_value(text: str) -> str:
    """Return the value of a header, or a reference to a secret that holds it as `valid_secret` does.

    Raises Invalid for a character other than printable ASCII and tabs (RFC 9110 section 5.5), and for an invalid
    reference.
    """
    found = _NOT_IN_VALUE.search(text)
    if found:
        raise Invalid("this character is not allowed in a header", hint='such as `"core"`', part=found.span())
    return valid_secret(text) if is_reference(text) else text
