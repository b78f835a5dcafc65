"""What may be said of one setting of the language, as plain data.

Block kinds and rows describe their settings by pydantic models; `dslc.blocks.setting.settings_of` reads these, and the
catalogue keeps what it read, so that a check imports neither the models nor pydantic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

Written = Literal[
    "string", "scalar", "integer", "number", "boolean", "word", "duration", "size",
    "url_path", "url", "json_path", "header_name", "pattern", "event", "network", "template", "tool",
    "secret", "name", "reference", "variant", "group",
]  # fmt: skip
"""How a value is written. `scalar`: string, number or truth. `word`: one of `choices`. `reference`: a block's name.
`template`: a string with `choices` in braces. `tool`: a tool's name, or a pattern over them."""


class Setting(NamedTuple):
    """One setting of a block, of a group or of a row's options.

    `default`, `example`, `minimum` and `maximum` are as JSON and as the language writes them (`"90d"`, `"256KiB"`,
    `0.7`); bounds are inclusive. `example`: a value worth showing where the default is not. `many`: a list of values
    (one will do when `single`), or a group that may be given several times. `min_length`, `max_length`: characters of
    a string, or items of a list. `settings`: those of a group.

    `form`: the pattern that a whole text must match, and `form_says` what such a text is. `families`: all items of the
    list are of one of these. `refuses`: values that other settings cannot have beside it. `distinct`: the texts of all
    such settings differ. `fills`: the part of a template that it says the place of; `signed_only`: it is of no use
    unless a template has that part.
    """

    name: str
    type: Written
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
    settings: tuple[Setting, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """This as plain JSON: name, type, text, whether required, default, and what else is not as usual."""
        always = {"name", "type", "doc", "required", "default"}
        usual = self._field_defaults
        kept = {key: value for key, value in self._asdict().items() if key in always or value != usual[key]}
        kept |= {key: list(value) for key, value in kept.items() if isinstance(value, tuple)}
        return kept | ({"settings": [inner.to_json() for inner in self.settings]} if self.settings else {})

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Setting:
        """What `to_json` wrote. Raises TypeError for anything else."""
        lists = {key: _tuples(value) for key, value in given.items() if key in _LISTS}
        inner = tuple(cls.from_json(setting) for setting in given.get("settings", ()))
        return cls(**{**given, **lists, "settings": inner})


_LISTS = {"choices", "needs", "needs_one", "excludes", "one_of", "families", "refuses"}


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
