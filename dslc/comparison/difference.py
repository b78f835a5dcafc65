"""Comparison of two compiled programs: added, removed and changed blocks, and the effects of a reload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from dslc.blocks.block import Block
from dslc.blocks.setting import field_name
from dslc.blocks.variant import Variant
from dslc.comparison.reload_effects import Reload
from dslc.program import BLOCK_FIELDS, Program
from dslc.report.program import plain
from dslc.setting import Setting
from dslc.syntax.quoting import write_name
from dslc.vocabulary import Settings, Vocabulary, by_name


@dataclass(frozen=True)
class SettingDiff:
    """A setting whose value differs.

    `path`: `search.vector_weight`, `provider.header`, `filter[0].equals`. `old`, `new`: as `dslc compile` prints them,
    None if unset. Two different literal secrets are both `[literal]`, and two URLs that differ only in the password are
    equal here.
    """

    path: str
    old: Any
    new: Any
    setting: Setting = field(repr=False)


@dataclass(frozen=True)
class BlockDiff:
    """An added, changed or removed block. `origin`: `file:line` of its declaration; None for a block built in code.

    `effects`: the effects of a reload on it, one line each.
    """

    kind: str
    name: str
    block: Block = field(repr=False)
    origin: str | None
    changes: tuple[SettingDiff, ...] = ()
    effects: tuple[str, ...] = ()


@dataclass(frozen=True)
class Difference:
    """All differences; each list is sorted by kind, then source order. `effects`: effects that do not belong to one
    block."""

    added: tuple[BlockDiff, ...]
    changed: tuple[BlockDiff, ...]
    removed: tuple[BlockDiff, ...]
    effects: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """True if both programs define the same; comments, order and positions do not count."""
        return not (self.added or self.changed or self.removed)


def difference(old: Program, new: Program, vocabulary: Vocabulary) -> Difference:
    """Compare the definitions of two programs that compiled with this vocabulary."""
    added: list[BlockDiff] = []
    changed: list[BlockDiff] = []
    removed: list[BlockDiff] = []
    reload = Reload(old, new, vocabulary.fileless)
    for plural, kind in BLOCK_FIELDS.items():
        before, after = getattr(old, plural), getattr(new, plural)
        settings = vocabulary.kinds[kind]
        for name, block in after.items():
            changes = tuple(_group_diffs("", settings, before[name], block, vocabulary)) if name in before else ()
            if name in before and not changes:
                continue
            effects = tuple(reload.effects_of_block(kind, name))
            entry = BlockDiff(kind, name, block, new.origins.get((kind, name)), changes, effects)
            (changed if name in before else added).append(entry)
        for name, block in before.items():
            if name not in after:
                effects = tuple(reload.effects_of_block(kind, name))
                removed.append(BlockDiff(kind, name, block, old.origins.get((kind, name)), (), effects))
    return Difference(tuple(added), tuple(changed), tuple(removed), tuple(reload.effects_of_program()))


def _group_diffs(path: str, settings: Settings, old: Any, new: Any, vocabulary: Vocabulary) -> Iterator[SettingDiff]:
    """Differences of a block, a group or a row's options."""
    for name, setting in settings.items():
        inner = f"{path}.{name}" if path else name
        yield from _setting_diffs(inner, setting, _get(old, name), _get(new, name), vocabulary)


def _get(group: Any, name: str) -> Any:
    return group.get(name) if isinstance(group, Mapping) else getattr(group, field_name(name))


def _setting_diffs(path: str, setting: Setting, old: Any, new: Any, vocabulary: Vocabulary) -> Iterator[SettingDiff]:
    if _identity(old) == _identity(new):
        return
    if setting.type == "group" and old is not None and new is not None:
        if setting.many:
            yield from _repeated_diffs(path, setting, old, new, vocabulary)
        else:
            yield from _group_diffs(path, by_name(setting.settings), old, new, vocabulary)
    elif setting.type == "map":
        for key in dict.fromkeys((*(new or {}), *(old or {}))):
            yield from _setting_diffs(
                f"{path}.{write_name(key)}", setting.item(key), _get(old or {}, key), _get(new or {}, key), vocabulary
            )
    elif isinstance(old, Variant) and isinstance(new, Variant) and old.name == new.name:
        row = vocabulary.rows(setting.family or "").get(new.name)
        yield from _group_diffs(path, by_name(row.options if row else ()), old.options, new.options, vocabulary)
    else:
        yield SettingDiff(path, plain(old, setting, vocabulary), plain(new, setting, vocabulary), setting)


def _repeated_diffs(path: str, setting: Setting, old: Any, new: Any, vocabulary: Vocabulary) -> Iterator[SettingDiff]:
    """Differences of repeated groups: equal groups are skipped; if the same number is left on both sides, they are
    paired."""
    if setting.named:
        yield from _named_diffs(path, setting, old, new, vocabulary)
        return
    gone, came = _without_common(old, new), _without_common(new, old)
    if not gone and not came:
        yield SettingDiff(path, plain(old, setting, vocabulary), plain(new, setting, vocabulary), setting)
    elif len(gone) == len(came):
        for (_, before), (at, after) in zip(gone, came, strict=True):
            yield from _group_diffs(f"{path}[{at}]", by_name(setting.settings), before, after, vocabulary)
    else:
        for at, group in gone:
            yield SettingDiff(f"{path}[{at}]", plain(group, setting, vocabulary), None, setting)
        for at, group in came:
            yield SettingDiff(f"{path}[{at}]", None, plain(group, setting, vocabulary), setting)


def _named_diffs(path: str, setting: Setting, old: Any, new: Any, vocabulary: Vocabulary) -> Iterator[SettingDiff]:
    """Differences of named groups, paired by their names."""
    before, after = ({_get(group, "name"): group for group in groups} for groups in (old, new))
    for name in dict.fromkeys((*after, *before)):
        if name in before and name in after:
            settings = by_name(setting.settings)
            yield from _group_diffs(f"{path}.{write_name(name)}", settings, before[name], after[name], vocabulary)
        elif name in after:
            yield SettingDiff(path, None, plain(after[name], setting, vocabulary), setting)
        else:
            yield SettingDiff(path, plain(before[name], setting, vocabulary), None, setting)
    if before == after:
        yield SettingDiff(path, plain(old, setting, vocabulary), plain(new, setting, vocabulary), setting)


def _without_common(groups: Any, others: Any) -> list[tuple[int, Any]]:
    """Groups, with their indexes, that do not occur as often in `others`."""
    there = Counter(map(_identity, others))
    left = []
    for at, group in enumerate(groups):
        identity = _identity(group)
        if there[identity]:
            there[identity] -= 1
        else:
            left.append((at, group))
    return left


def _identity(value: Any) -> Hashable:
    """Key that is equal for equal values. Unlike in Python, `1` and `true` differ, as they do in a filter."""
    if isinstance(value, BaseModel):
        return tuple((name, _identity(inner)) for name, inner in value)
    if isinstance(value, Mapping):
        return frozenset((name, _identity(inner)) for name, inner in value.items())
    if isinstance(value, tuple | list):
        return tuple(map(_identity, value))
    return (isinstance(value, bool), value)
