"""Prices of models: what a limit of costs needs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from dslc.blocks.checked_variant import CheckedVariant
from dslc.check.declarations import Declaration, Location
from dslc.syntax.quoting import write_name

PRICES: Final = ("input_price", "output_price")


class MissingPrice(NamedTuple):
    """Message, hint and label of a diagnostic about a model that lacks a price."""

    message: str
    hint: str
    label: tuple[str, Location]


def missing_prices(model: Declaration, fallbacks: Iterable[Declaration]) -> list[MissingPrice]:
    """Return what to report where a limit of costs holds for a model, about it and its fallbacks."""
    found = [_missing_price(model, "")]
    found += [_missing_price(each, f", a fallback of `{model.name}`") for each in fallbacks if each.name != model.name]
    return [each for each in found if each is not None]


def fallbacks_of(model: Declaration) -> tuple[str, ...]:
    """Return the names of the fallbacks of a model block."""
    names = model.checked.given.values.get("fallback") if model.checked is not None else None
    return tuple(map(str, names)) if isinstance(names, tuple | list) else ()


def _published_prices(service: object) -> dict[str, float]:
    """Return the published prices of the model that a service names; empty if they are not known."""
    if not isinstance(service, CheckedVariant):
        return {}
    name = service.options.get("model")
    try:
        # Loaded for this hint alone.
        import genai_prices

        from dslc.blocks.model import price_provider

        tokens = genai_prices.Usage(input_tokens=1000, output_tokens=1000)
        found = genai_prices.calc_price(tokens, str(name), provider_id=price_provider(service.name))
    except Exception:
        # Without the package, and for a service or a model that it does not know.
        return {}
    return {"input_price": float(found.input_price) * 1000, "output_price": float(found.output_price) * 1000}


def _missing_price(model: Declaration, which: str) -> MissingPrice | None:
    if model.checked is None:
        return None
    missing = [name for name in PRICES if not model.checked.given.may_have(name)]
    if not missing:
        return None
    names = " and ".join(f"`{name}`" for name in missing)
    label = f"{names} {'is' if len(missing) == 1 else 'are'} missing here"
    prices = _published_prices(model.checked.given.values.get("service"))
    example = " and ".join(f"`{name} {prices[name]:.6g}`" if name in prices else f"`{name}`" for name in missing)
    return MissingPrice(
        f"`cost_per_day` needs {names} in `model {write_name(model.name)}`{which}",
        f"add {example} to it, in US dollars per million tokens",
        (label, model.location),
    )
