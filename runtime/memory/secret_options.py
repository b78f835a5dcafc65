"""Secrets in the options of a memory, at any depth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from dslc.blocks.memory import Memory
from dslc.blocks.setting import settings_of
from dslc.blocks.values.secret import is_reference, valid_secret
from dslc.blocks.variant import Variant
from dslc.setting import Setting
from runtime.memory import STORES
from runtime.memory.records.remotes import REMOTES
from runtime.models import MODELS
from runtime.search.embedding import EMBEDDINGS
from runtime.search.index import INDEXES
from runtime.secrets.secret import Secret

NO_PROBLEMS: Final[Mapping[str, str]] = MappingProxyType({})
_Put = Callable[[str], object]


def secrets_of(memory: Memory) -> tuple[str, ...]:
    """Return the secrets in the options of the memory's store, embedding, index and model, each once: a reference, or
    the literal text."""
    chosen = {
        "store": memory.store,
        "embedding": memory.embedding,
        "index": memory.index,
        "model": memory.summarize.model,
    }
    return tuple(dict.fromkeys(text for family, choice in chosen.items() for text in secrets_in(choice, family)))


def secrets_in(choice: Variant | None, family: str) -> tuple[str, ...]:
    """Return the secrets in the options of this row of `family` (`store`, `embedding`, `index`, `model`), each once."""
    found: dict[str, None] = {}

    def note(text: str) -> str:
        found[valid_secret(text)] = None
        return text

    if choice is not None:
        _choice(choice, family, note)
    return tuple(found)


class FilledOptions(NamedTuple):
    """Options with their secrets inserted. `missing`: the reasons why some are not."""

    options: Mapping[str, object]
    missing: tuple[str, ...] = ()


def with_secrets(
    choice: Variant | None, family: str, values: Mapping[str, Secret], problems: Mapping[str, str] = NO_PROBLEMS
) -> FilledOptions:
    """Return its options with the secrets of `values` inserted; an unresolved one stays a reference, which the row
    reports. `problems`: why secrets could not be resolved."""
    if choice is None:
        return FilledOptions({})
    missing: dict[str, None] = {}

    def put(text: str) -> object:
        reference = valid_secret(text)
        if reference in problems:
            missing[problems[reference]] = None
        return values.get(reference, text)

    return FilledOptions(_choice(choice, family, put).options, tuple(missing))


def _choice(choice: Variant, family: str, put: _Put) -> Variant:
    row = _rows(family).get(choice.name)
    if row is None:
        return choice
    return Variant(name=choice.name, options=_options(choice.options, settings_of(row.options), put))


def _options(options: Mapping[str, Any], settings: Iterable[Setting], put: _Put) -> dict[str, object]:
    known = {setting.name: setting for setting in settings}
    return {name: _value(value, known.get(name), put) for name, value in options.items()}


def _value(value: Any, setting: Setting | None, put: _Put) -> object:
    if setting is None:
        return value
    if isinstance(value, tuple):
        return tuple(_value(each, setting, put) for each in value)
    if setting.type == "secret" and isinstance(value, str):
        return put(value)
    if setting.type == "header_value" and isinstance(value, str):
        return put(value) if is_reference(value) else value
    if setting.type == "map" and isinstance(value, Mapping):
        return {key: _value(each, setting.item(key), put) for key, each in value.items()}
    if isinstance(value, Variant):
        return _choice(value, setting.family or "", put)
    return _options(value, setting.settings, put) if isinstance(value, Mapping) else value


def _rows(family: str) -> Mapping[str, Any]:
    families: dict[str, Mapping[str, Any]] = {
        "store": STORES,
        "remote": REMOTES,
        "embedding": EMBEDDINGS,
        "index": INDEXES,
        "model": MODELS,
    }
    return families.get(family, {})
