"""The key of options: equal if and only if the options are, secrets included."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping
from typing import Any

from dslc.blocks.variant import Variant
from runtime.secrets.secret import Secret


def option_key(value: Any) -> Hashable:
    """Return a hashable form of `value`; for a secret its hash, because the secret may have changed."""
    match value:
        case Secret():
            return "secret", hashlib.sha256(value.reveal()).digest()
        case Variant():
            return value.name, option_key(value.options)
        case Mapping():
            return frozenset((key, option_key(item)) for key, item in value.items())
        case tuple() | list():
            return tuple(map(option_key, value))
    assert isinstance(value, Hashable)
    return value
