"""Names of tools for language models and for the Model Context Protocol: providers refuse dots and long names."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable
from itertools import count
from typing import Final

LONGEST: Final = 64

_FORM: Final = re.compile(rf"[a-zA-Z0-9_-]{{1,{LONGEST}}}")
_OTHER: Final = re.compile(r"[^a-zA-Z0-9_-]")
_HASH: Final = 8
"""Hexadecimal digits of the hash at the end of a name that was cut."""


def model_name(name: str) -> str:
    """Return the name of a tool in the form `[a-zA-Z0-9_-]{1,64}`: other characters become `_`, and a name that is too
    long is cut and ends in a hash of the whole name. A name in this form stays."""
    plain = _OTHER.sub("_", name) or "_"
    return plain if len(plain) <= LONGEST else _hashed_name(plain, name)


def model_names(names: Iterable[str]) -> dict[str, str]:
    """Return each tool's name by its `model_name`.

    No two names become one: if a `model_name` is in use, that of the later name, in alphabetical order, ends in a hash
    too. Names in the right form precede and stay.
    """
    found: dict[str, str] = {}
    for name in sorted(set(names), key=lambda each: (_FORM.fullmatch(each) is None, each)):
        found[_free_name(name, found)] = name
    return found


def _free_name(name: str, taken: Collection[str]) -> str:
    wanted = model_name(name)
    if wanted not in taken:
        return wanted
    plain = _OTHER.sub("_", name)
    for number in count():
        wanted = _hashed_name(plain, f"{name}\x00{number}" if number else name)
        if wanted not in taken:
            break
    return wanted


def _hashed_name(plain: str, name: str) -> str:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]
    return f"{plain[: LONGEST - _HASH - 1]}_{digest}"
