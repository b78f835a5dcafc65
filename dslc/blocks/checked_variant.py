"""A checked variant: plain data, from which the model `Variant` is built later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class CheckedVariant(NamedTuple):
    """Name of a row, with the options that the program sets: `provider custom { header "X-Signature" }`."""

    name: str
    options: Mapping[str, Any]
