"""The types of values, for fields of blocks and for options of the runtime's rows.

Each is an ordinary Python type annotated with how a program writes it (`As`) and with the check that is the same
wherever the value comes from: a file, or code that builds the model itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator

from dslc.blocks.duration import read_duration
from dslc.blocks.invalid import Invalid
from dslc.blocks.json_path import valid_json_path
from dslc.blocks.size import read_size
from dslc.blocks.url import valid_url, valid_url_path

Written = Literal[
    "string", "scalar", "integer", "number", "boolean", "word", "duration", "size",
    "url_path", "url", "json_path", "secret", "name", "reference", "variant", "group",
]  # fmt: skip
"""How a value is written. `scalar`: string, number or truth. `word`: one of `choices`. `reference`: a block's name."""


@dataclass(frozen=True)
class As:
    """How a field is written in a program.

    `block`: the kind of block a reference names. `family`: the catalogue's family a variant's or name's rows come from.
    `open`: a name the family does not list is taken as it is.
    """

    written: Written
    block: str | None = None
    family: str | None = None
    open: bool = False


@dataclass(frozen=True)
class Relation:
    """How a setting stands to its siblings: it `needs` each, `excludes` each, or one of `one_of` must be given."""

    needs: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    one_of: tuple[str, ...] = ()


@dataclass(frozen=True)
class Marker:
    """A property of a field that its type does not say."""

    meaning: Literal["head", "single"]


HEAD = Marker("head")
"""The field is written in the block's head (its name), not as a setting."""
SINGLE = Marker("single")
"""One value may stand where a list is meant."""

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
NAME_RULE = "1 to 64 letters, digits, `_`, `-` or `.`"
_REFERENCE = re.compile(r"(secret://|vault://)(.*)", re.DOTALL)


def valid_name(name: str) -> str:
    """`name` itself. Raises Invalid unless it is 1 to 64 ASCII letters, digits, `_`, `-`, `.`, and not `.` or `..`."""
    if not _NAME.fullmatch(name) or name in {".", ".."}:
        raise Invalid("not a legal name", hint=f"a name has {NAME_RULE}")
    return name


def is_reference(secret: str) -> bool:
    """Whether the text refers to a secret kept elsewhere; anything else is the secret itself."""
    return _REFERENCE.match(secret) is not None


def backend_of(reference: str) -> str:
    """The backend a reference names: `vault` of `secret://vault/github`."""
    return valid_secret(reference).removeprefix("secret://").partition("/")[0]


def valid_secret(secret: str) -> str:
    """A literal as it is, a reference as `secret://backend/path` (`vault://x` is short for `secret://vault/x`).

    Raises Invalid for a blank text and for a reference without backend or path. Never shows the text.
    """
    if not secret.strip():
        raise Invalid("a secret is not empty", hint='such as `secret "secret://env/GITHUB_SECRET"`', fault="bounds")
    match = _REFERENCE.match(secret)
    if match is None:
        return secret
    scheme, rest = match.groups()
    whole = rest if scheme == "secret://" else f"vault/{rest}"
    backend, _, path = whole.partition("/")
    if not _NAME.fullmatch(backend) or not path.strip() or re.search(r"[\x00-\x1f\x7f]", path):
        raise Invalid("not a reference to a secret", hint="such as `secret://env/GITHUB_SECRET`")
    return f"secret://{whole}"


def _duration(value: Any) -> Any:
    if isinstance(value, str):
        return read_duration(value)
    if isinstance(value, timedelta) and value >= timedelta(0):
        return value
    raise Invalid("not a duration", hint="such as `90d`", fault="type")


def _size(value: Any) -> Any:
    return read_size(value) if isinstance(value, str) else value


Name = Annotated[str, AfterValidator(valid_name), As("name")]
UrlPath = Annotated[str, AfterValidator(valid_url_path), As("url_path")]
Url = Annotated[str, AfterValidator(valid_url), As("url")]
JsonPath = Annotated[str, AfterValidator(valid_json_path), As("json_path")]
SecretReference = Annotated[str, AfterValidator(valid_secret), As("secret")]
Duration = Annotated[timedelta, BeforeValidator(_duration), As("duration")]
Size = Annotated[int, BeforeValidator(_size), As("size")]
