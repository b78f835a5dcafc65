"""Prices of models: what a limit of costs needs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from dslc.check.declarations import Declaration, Location
from dslc.syntax.quoting import named

PRICES: Final = ("input_price", "output_price")
_EXAMPLES: Final = {"input_price": "0.4", "output_price": "1.6"}


class Unpriced(NamedTuple):
    """Message, hint and label of a diagnostic about a model that lacks a price."""

    message: str
    hint: str
    label: tuple[str, Location]


def unpriced(model: Declaration, fallbacks: Iterable[Declaration]) -> list[Unpriced]:
    """Return what to report where a limit of costs holds for a model, about it and its fallbacks."""
    found = [_unpriced(model, "")]
    found += [_unpriced(each, f", a fallback of `{model.name}`") for each in fallbacks if each.name != model.name]
    return [each for each in found if each is not None]


def fallbacks_of(model: Declaration) -> tuple[str, ...]:
    """Return the names of the fallbacks of a model block."""
    names = model.checked.given.values.get("fallback") if model.checked is not None else None
    return tuple(map(str, names)) if isinstance(names, tuple | list) else ()


def _unpriced(model: Declaration, which: str) -> Unpriced | None:
    if model.checked is None:
        return None
    missing = [name for name in PRICES if not model.checked.given.may_have(name)]
    if not missing:
        return None
    names = " and ".join(f"`{name}`" for name in missing)
    label = f"{names} {'is' if len(missing) == 1 else 'are'} missing here"
    example = " and ".join(f"`{name} {_EXAMPLES[name]}`" for name in missing)
    return Unpriced(
        f"`cost_per_day` needs {names} in `model {named(model.name)}`{which}",
        f"add {example} to it, in US dollars per million tokens",
        (label, model.location),
    )
