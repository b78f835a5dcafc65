"""Names of tools in a program, and patterns over them: `memory_search`, `memory_*`, `github.create_issue`."""

from __future__ import annotations

import re

from dslc.blocks.values.invalid import Invalid

FORM = r"[A-Za-z0-9_.*-]{1,64}"
_FORM = re.compile(FORM)
_OTHER = re.compile(r"[^A-Za-z0-9_.*-]")


def valid_tool(text: str) -> str:
    """Return `text`. Raises Invalid unless it is a tool's name or a pattern: 1 to 64 letters, digits, `_`, `-`, `.`
    and `*`."""
    if _FORM.fullmatch(text) is None:
        bad = _OTHER.search(text)
        hint = "1 to 64 letters, digits, `_`, `-`, `.` and `*`, such as `memory_search` or `memory_*`"
        raise Invalid("not a tool's name or a pattern", hint=hint, part=bad.span() if bad else None)
    return text


def server_of(tool: str) -> str | None:
    """Return the server in front of a tool's name or of a pattern, `github` of `github.create_issue`; None for a tool
    of this program, whose name has no dot."""
    server, dot, _ = tool.partition(".")
    return server if dot else None


def matches(pattern: str, name: str) -> bool:
    """True if a tool's name matches the pattern; `*` matches zero or more characters. The server in front of a name is
    no part of what a `*` matches: the tools of a server are selected only where it is named."""
    return server_of(pattern) == server_of(name) and guards(pattern, name)


def guards(pattern: str, name: str) -> bool:
    """True if a pattern of tools to be confirmed matches a tool's name. Unlike in `matches`, a `*` matches servers and
    the dot too, so that `"*"` leaves out no tool."""
    first, *rest = pattern.split("*")
    if not rest:
        return pattern == name
    *middle, last = rest
    at = len(first)
    if not name.startswith(first):
        return False
    for part in middle:
        found = name.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return len(name) - at >= len(last) and name.endswith(last)
