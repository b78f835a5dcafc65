"""JSONPath (RFC 9535), checked before it is ever run."""

from __future__ import annotations

import re
from functools import lru_cache

from dslc.blocks.values.invalid import Invalid

# `$.a.b[0]['c']`: so common that the JSONPath library, slow to import, is not asked about it.
_PLAIN = re.compile(r"""\$(?:\.[A-Za-z_][A-Za-z0-9_]*|\[(?:0|[1-9][0-9]{0,8})\]|\['[^'\\\x00-\x1f]*'\])*""")
_HINT = "such as `$.action` or `$.items[0].name`"
_LONGEST = 2000
_DEEPEST = 32


@lru_cache(maxsize=1024)
def valid_json_path(path: str) -> str:
    """`path` itself. Raises Invalid for what is not an RFC 9535 query of reasonable length and depth."""
    if _PLAIN.fullmatch(path):
        return path
    if not path.startswith("$"):
        raise Invalid("a JSONPath starts with `$`", hint=_HINT)
    # The library reads by recursion.
    if len(path) > _LONGEST or sum(map(path.count, "([!")) > _DEEPEST * 4:
        raise Invalid("the JSONPath is too long", hint=_HINT)
    from jsonpath import JSONPathEnvironment
    from jsonpath.exceptions import JSONPathError

    try:
        JSONPathEnvironment(strict=True).compile(path)
    except (JSONPathError, RecursionError) as error:
        raise Invalid("not a valid JSONPath", hint=_HINT) from error
    return path
