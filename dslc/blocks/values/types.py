"""The types of values, for fields of blocks and for options of the runtime's rows.

Each is an ordinary Python type annotated with how a program writes it (`As`) and with the check that is the same
wherever the value comes from: a file, or code that builds the model itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, GetCoreSchemaHandler
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_after_validator_function

from dslc.blocks.values.duration import read_duration
from dslc.blocks.values.event import valid_event
from dslc.blocks.values.form import valid_form
from dslc.blocks.values.header import valid_header_name
from dslc.blocks.values.invalid import Invalid
from dslc.blocks.values.json_path import valid_json_path
from dslc.blocks.values.names import valid_name
from dslc.blocks.values.network import valid_network
from dslc.blocks.values.pattern import valid_pattern
from dslc.blocks.values.secret import valid_secret
from dslc.blocks.values.size import read_size
from dslc.blocks.values.tool import valid_tool
from dslc.blocks.values.url import valid_url, valid_url_path
from dslc.setting import Written


@dataclass(frozen=True)
class As:
    """How a field is written in a program.

    `block`: the kind of block a reference names. `family`: the catalogue's family a variant's or name's rows come from.
    `choices`: the parts of a template.
    """

    written: Written
    block: str | None = None
    family: str | None = None
    choices: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Form:
    """The pattern that a whole text must match, and what such a text is, in words."""

    pattern: str
    says: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_after_validator_function(
            lambda text: text if text is None else valid_form(text, self.pattern, self.says), handler(source)
        )


@dataclass(frozen=True)
class Relation:
    """How a setting stands to its siblings.

    It `needs` each, and one of `needs_one`; it `excludes` each. One of `one_of` must be given, whether it is or not.
    The others are as in `dslc.setting.Setting`.
    """

    needs: tuple[str, ...] = ()
    needs_one: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    one_of: tuple[str, ...] = ()
    families: tuple[tuple[str, ...], ...] = ()
    refuses: tuple[tuple[str, tuple[str, ...]], ...] = ()
    distinct: bool = False
    fills: str | None = None
    signed_only: bool = False


@dataclass(frozen=True)
class Marker:
    """A property of a field that its type does not say."""

    meaning: Literal["head", "single"]


HEAD = Marker("head")
"""The field is written in the block's head (its name), not as a setting."""
SINGLE = Marker("single")
"""One value may stand where a list is meant."""


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
HeaderName = Annotated[str, AfterValidator(valid_header_name), As("header_name")]
Tool = Annotated[str, AfterValidator(valid_tool), As("tool", family="tool")]
Pattern = Annotated[str, AfterValidator(valid_pattern), As("pattern")]
Event = Annotated[str, AfterValidator(valid_event), As("event")]
Network = Annotated[str, AfterValidator(valid_network), As("network")]
SecretReference = Annotated[str, AfterValidator(valid_secret), As("secret")]
Duration = Annotated[timedelta, BeforeValidator(_duration), As("duration")]
Size = Annotated[int, BeforeValidator(_size), As("size")]
