"""Check that a window has room for a request beside the reply: `reply_tokens` is smaller than what it is a part of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from dslc.blocks.checked_variant import CheckedVariant
from dslc.catalog import CatalogEntry
from dslc.syntax.tree import EntryNode
from dslc.value_reading.check_state import BodyValues

_OPTIONS: Final = frozenset({"context", "window"})
"""The options of services that are the window of its model, unless the `window` of a model block is another one."""


class Window(NamedTuple):
    """Maximum tokens of a request and its reply. `setting`: what says so. `entry`: where it is given; None for a
    default. `owner`: the service whose option it is; empty for a setting of a block."""

    tokens: int
    setting: str
    entry: EntryNode | None
    owner: str = ""

    def misfit(self, reply: int, owner: str = "") -> tuple[str, str]:
        """Return message and hint for a reply that leaves no room. `owner`: the block whose setting it is, if it is
        another one than that of the reply."""
        owner = self.owner or owner
        whole = f"`{self.setting}` of `{owner}`" if owner else f"`{self.setting}`"
        message = f"`reply_tokens` is {reply}, but {whole}, which includes the reply, is {self.tokens}"
        return message, f"lower it, or raise `{self.setting}`"


def window_of_block(services: Mapping[str, CatalogEntry], given: BodyValues) -> Window | None:
    """Return the window of a `model` block; None if the program does not say it. `services`: the rows of models."""
    if given.may_have("window"):
        tokens = given.values.get("window")
        return Window(tokens, "window", given.entry("window")) if isinstance(tokens, int) else None
    return window_of_service(services, given, "service")


def window_of_service(services: Mapping[str, CatalogEntry], given: BodyValues, setting: str) -> Window | None:
    """Return the window of the service that a setting names with its options; None if these do not say it, or if the
    setting names a block."""
    named, entry = given.values.get(setting), given.entry(setting)
    if not isinstance(named, CheckedVariant) or named.name not in services or entry is None:
        return None
    option = next((each for each in services[named.name].options if each.name in _OPTIONS), None)
    tokens = None if option is None else named.options.get(option.name, option.default)
    if option is None or not isinstance(tokens, int):
        return None
    options = () if entry.body is None else entry.body.entries
    return Window(tokens, option.name, next((each for each in options if each.key == option.name), None), named.name)
