"""Characters that a service cut in two: a part of a stream may end inside one, in its bytes or in its escapes."""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

from runtime.json_bounds import OFF_THE_LOOP, excess
from runtime.json_text import decode_strictly

_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_LONE: Final = re.compile("[\ud800-\udc7f\udd00-\udfff]")
_HALF: Final = re.compile(
    "(?:[\ud800-\udbff]|[\udcc2-\udcdf]|[\udce0-\udcef][\udc80-\udcbf]?|[\udcf0-\udcf4][\udc80-\udcbf]{0,2})\\Z"
)
"""The beginning of a character at the end of a text: of a pair of surrogates, or of UTF-8 as `decoded` returns it."""


def decoded(data: bytes) -> Any:
    """Return decoded JSON. Halves of characters in it are surrogates, of which `whole_text` makes characters where they
    are beside each other. Raises ValueError, RecursionError."""
    if len(data) > OFF_THE_LOOP and excess(data) is not None:
        raise ValueError("too many values")
    try:
        return decode_strictly(data)
    except ValueError:
        return json.loads(data.decode("utf-8", "surrogateescape"), parse_constant=_refuse)


def whole_text(text: str) -> str:
    """Return a text whose halves of characters are joined; U+FFFD in place of those without the other half."""
    try:
        text.encode()
    except UnicodeEncodeError:
        text = _LONE.sub("\ufffd", _PAIR.sub(_character_of, text))
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return text


class WholeCharacters:
    """Joins a text that arrives in parts, whose characters may be cut between them."""

    def __init__(self) -> None:
        self._half = ""

    def feed(self, part: str) -> str:
        """Return the text up to the last whole character."""
        text = self._half + part
        half = _HALF.search(text, max(0, len(text) - 4))
        self._half = half[0] if half else ""
        return whole_text(text[: half.start()] if half else text)

    def end(self) -> str:
        """Return the rest of a character that has no end."""
        rest, self._half = whole_text(self._half), ""
        return rest


def _character_of(pair: re.Match[str]) -> str:
    return pair[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
