"""What a check knows of a variant, before there is a model of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class CheckedVariant(NamedTuple):
    """A row by its name, with the options that were given: `provider custom { header "X-Signature" }`."""

    name: str
    options: Mapping[str, Any]
