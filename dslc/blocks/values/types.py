"""Value types for fields of blocks and options of the runtime's rows.

Each is a Python type annotated with its type in the language (`As`) and its validator, which applies to values from
files and to models that are built in code.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Final, Literal

from annotated_types import Ge, Le
from pydantic import AfterValidator, BeforeValidator, GetCoreSchemaHandler
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_after_validator_function

from dslc.blocks.values.event import valid_event
from dslc.blocks.values.form import valid_form
from dslc.blocks.values.header import valid_header_name, valid_header_value
from dslc.blocks.values.invalid import Invalid
from dslc.blocks.values.json_path import valid_json_path
from dslc.blocks.values.names import valid_name
from dslc.blocks.values.network import valid_network
from dslc.blocks.values.pattern import valid_pattern
from dslc.blocks.values.quantity import read_duration, read_size
from dslc.blocks.values.secret import valid_env_value, valid_secret
from dslc.blocks.values.tool import valid_tool
from dslc.blocks.values.url import valid_url, valid_url_path
from dslc.setting import ValueType


@dataclass(frozen=True)
class As:
    """Type of a field in the language.

    `block`: the kind of block that a reference names, or a variant instead of a row. `family`: the catalog's family
    with the rows of a variant or name. `choices`: the parts of a template. `guards`: patterns of tools match
    destructive tools too, because the setting protects from them.
    """

    written: ValueType
    block: str | None = None
    family: str | None = None
    choices: tuple[str, ...] | None = None
    guards: bool = False


@dataclass(frozen=True)
class Form:
    """Pattern that a whole text must match, and a description of such a text."""

    pattern: str
    says: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_after_validator_function(
            lambda text: text if text is None else valid_form(text, self.pattern, self.says), handler(source)
        )


@dataclass(frozen=True)
class Relation:
    """Relations of a setting to the other settings of its body.

    It needs all of `needs` and one of `needs_one`, and excludes all of `excludes`. One of `one_of` is required even if
    the setting itself is not given. The other fields are as in `dslc.setting.Setting`.
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
    """Property of a field that its type does not express."""

    meaning: Literal["head", "single"]


HEAD = Marker("head")
"""The field is written in the block's head (its name), not in its body."""
SINGLE = Marker("single")
"""A single value is accepted instead of a list."""


def _duration(value: Any) -> Any:
    if isinstance(value, str):
        return read_duration(value)
    if isinstance(value, timedelta) and value >= timedelta(0):
        return value
    raise Invalid("not a duration", hint="such as `90d`", fault="type")


def _size(value: Any) -> Any:
    return read_size(value) if isinstance(value, str) else value


Scalar = str | int | float | bool
Name = Annotated[str, AfterValidator(valid_name), As("name")]
UrlPath = Annotated[str, AfterValidator(valid_url_path), As("url_path")]
Url = Annotated[str, AfterValidator(valid_url), As("url")]
JsonPath = Annotated[str, AfterValidator(valid_json_path), As("json_path")]
HeaderName = Annotated[str, AfterValidator(valid_header_name), As("header_name")]
Tool = Annotated[str, AfterValidator(valid_tool), As("tool", family="tool")]
Guarded = Annotated[str, AfterValidator(valid_tool), As("tool", family="tool", guards=True)]
Pattern = Annotated[str, AfterValidator(valid_pattern), As("pattern")]
Event = Annotated[str, AfterValidator(valid_event), As("event")]
Network = Annotated[str, AfterValidator(valid_network), As("network")]
SecretReference = Annotated[str, AfterValidator(valid_secret), As("secret")]
HeaderValue = Annotated[str, AfterValidator(valid_header_value), As("header_value")]
EnvValue = Annotated[str, AfterValidator(valid_env_value), As("env_value")]
Duration = Annotated[timedelta, BeforeValidator(_duration), As("duration")]
Size = Annotated[int, BeforeValidator(_size), As("size")]

SMALLEST_WINDOW: Final = 1024
ContextTokens = Annotated[int, Ge(SMALLEST_WINDOW), Le(1_000_000_000)]
"""Size of the window of a model, or of the context of an agent, in tokens. Below the minimum an instruction leaves no
room for a message."""
