"""Validation of JSONPath queries (RFC 9535)."""

from __future__ import annotations

import re
from functools import lru_cache

from dslc.blocks.values.invalid import Invalid

# Common paths such as `$.a.b[0]['c']` are accepted without the JSONPath library, which is slow to import.
_PLAIN = re.compile(r"""\$(?:\.[A-Za-z_][A-Za-z0-9_]*|\[(?:0|[1-9][0-9]{0,8})\]|\['[^'\\\x00-\x1f]*'\])*""")
_HINT = "such as `$.action` or `$.items[0].name`"
_LONGEST = 2000
_DEEPEST = 32


NAME_PATTERN = r"[\u0080-\U0010FFFFa-zA-Z_][\u0080-\U0010FFFFa-zA-Z0-9_-]*"
"""A name after a dot (RFC 9535 section 2.5.1.1). The library's own pattern ends at U+FFFF."""


@lru_cache(maxsize=1024)
def valid_json_path(path: str) -> str:
    """Return `path`. Raises Invalid unless it is a query of RFC 9535. A query that `_PLAIN` does not match may have at
    most 2000 characters and a limited number of `(`, `[` and `!`."""
    if _PLAIN.fullmatch(path):
        return path
    if not path.startswith("$"):
        raise Invalid("a JSONPath starts with `$`", hint=_HINT)
    # The library parses recursively.
    if len(path) > _LONGEST or sum(map(path.count, "([!")) > _DEEPEST * 4:
        raise Invalid("the JSONPath is too long", hint=_HINT)
    from jsonpath import JSONPathEnvironment
    from jsonpath.exceptions import JSONPathError
    from jsonpath.lex import Lexer

    class Names(Lexer):
        key_pattern = NAME_PATTERN

    class Environment(JSONPathEnvironment):
        lexer_class = Names

    try:
        Environment(strict=True).compile(path)
    except (JSONPathError, RecursionError) as error:
        raise Invalid("not a valid JSONPath", hint=_HINT) from error
    return path
