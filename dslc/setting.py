"""Definition of one setting of the language, as plain data.

Block kinds and rows describe their settings by pydantic models. `dslc.blocks.setting.settings_of` reads these, and the
catalog stores the result, so that a check imports neither the models nor pydantic.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

ValueType = Literal[
    "string", "scalar", "integer", "number", "boolean", "word", "duration", "size",
    "url_path", "url", "json_path", "header_name", "pattern", "event", "network", "template", "tool",
    "secret", "header_value", "env_value", "name", "reference", "variant", "group", "map",
]  # fmt: skip
"""Type of a value, as written. `scalar`: string, number or boolean. `word`: one of `choices`. `reference`: name of a
block. `template`: string with `choices` in braces. `tool`: name of a tool, or a pattern. `header_value` and
`env_value`: string, or a reference to a secret that holds it. `map`: group whose keys are free."""

STRING_TYPES: frozenset[ValueType] = frozenset(
    {"string", "scalar", "url_path", "url", "json_path", "header_name", "pattern", "event", "network", "template",
     "secret", "header_value", "env_value"}
)  # fmt: skip
"""Types of settings whose value may be a string literal."""
NAME_TYPES: frozenset[ValueType] = frozenset({"name", "reference", "word", "variant", "tool"})
"""Types of settings whose value is a name: a word, or a string literal if it is not a valid word."""

# Names of settings whose value is a secret.
_SECRET = re.compile(
    r"secret|token$|passw|credential|authorization"
    r"|(?:^|[_.-])(?:key|pass|pwd|auth|hmac)$|(?:api|private|signing)[_-]?key",
    re.IGNORECASE,
)


def names_secret(name: str) -> bool:
    """True if the name of a setting suggests that its value is a secret."""
    return _SECRET.search(name) is not None


class Setting(NamedTuple):
    """One setting of a block, of a group or of a row's options.

    `default`, `example`, `minimum` and `maximum` are JSON values written as in the language (`"90d"`, `"256KiB"`,
    `0.7`); bounds are inclusive. `example`: shown instead of the default. `many`: a list of values (or one value if
    `single`), or a group that may be given several times. `min_length`, `max_length`: characters of a string, or items
    of a list. `settings`: those of a group.

    `named`: the group has a name, `key name { … }`, unique in its body. `block`: kind of the block that a reference
    names; a variant with `block` may name such a block instead of a row. `keys` and `items`: types of the keys and the
    values of a map.

    `form`: pattern that the whole text must match, or each key of a map; `form_says`: description of such a text.
    `families`: all items of the list must belong to one of these. `refuses`: values of other settings that exclude this
    one. `distinct`: the texts of all such settings must differ. `fills`: part of a template whose place this setting
    names; `signed_only`: useless unless a template contains that part. `guards`: patterns of tools match destructive
    tools too.
    """

    name: str
    type: ValueType
    doc: str = ""
    required: bool = False
    default: Any = None
    example: Any = None
    choices: tuple[str, ...] | None = None
    minimum: float | int | str | None = None
    maximum: float | int | str | None = None
    min_length: int | None = None
    max_length: int | None = None
    many: bool = False
    single: bool = False
    named: bool = False
    keys: ValueType | None = None
    items: ValueType | None = None
    block: str | None = None
    family: str | None = None
    needs: tuple[str, ...] = ()
    needs_one: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    one_of: tuple[str, ...] = ()
    form: str | None = None
    form_says: str | None = None
    families: tuple[tuple[str, ...], ...] = ()
    refuses: tuple[tuple[str, tuple[str, ...]], ...] = ()
    distinct: bool = False
    fills: str | None = None
    signed_only: bool = False
    guards: bool = False
    settings: tuple[Setting, ...] = ()

    def takes_body(self, words: int) -> bool:
        """True if a body may follow a head of so many words: `key {` has one, `key value {` has two."""
        if self.type in {"group", "map"}:
            return words == 1 + self.named
        return self.type == "variant" and words == 2

    @property
    def repeats(self) -> bool:
        """True if the setting may be given several times."""
        return self.many and self.type == "group"

    def item(self, key: str) -> Setting:
        """Return the setting of the key `key` of a map. The value of a header or of an environment variable is a secret
        if its name suggests it."""
        if self.items == "header_value" and names_secret(key):
            return Setting(key, "secret", form=r"[\t -~]*", form_says="text of printable ASCII characters")
        if self.items == "env_value" and names_secret(key):
            return Setting(key, "secret", form=r"[^\0]*", form_says="text without null characters")
        return Setting(key, self.items or "string")

    def to_json(self) -> dict[str, Any]:
        """Return the setting as JSON data: name, type, doc, required, default, and all fields that differ from their
        defaults."""
        always = {"name", "type", "doc", "required", "default"}
        usual = self._field_defaults
        kept = {key: value for key, value in self._asdict().items() if key in always or value != usual[key]}
        kept |= {key: list(value) for key, value in kept.items() if isinstance(value, tuple)}
        return kept | ({"settings": [inner.to_json() for inner in self.settings]} if self.settings else {})

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Setting:
        """Read the result of `to_json`. Raises TypeError for other data."""
        lists = {key: _tuples(value) for key, value in given.items() if key in _LISTS}
        inner = tuple(cls.from_json(setting) for setting in given.get("settings", ()))
        return cls(**{**given, **lists, "settings": inner})


_LISTS = {"choices", "needs", "needs_one", "excludes", "one_of", "families", "refuses"}


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
