"""Allowed settings of every body, looked up by the path of keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from dslc.catalog import Catalog, CatalogEntry
from dslc.setting import Setting

Settings = Mapping[str, Setting]


def by_name(settings: Sequence[Setting]) -> Settings:
    """Index settings by name."""
    return {setting.name: setting for setting in settings}


class MapSettings(Mapping[str, Setting]):
    """The body of a map: it names no settings, but `get` returns one for every key."""

    def __init__(self, map_setting: Setting) -> None:
        self._map = map_setting

    def __getitem__(self, key: str) -> Setting:
        return self._map.item(key)

    def __contains__(self, key: object) -> bool:
        return False

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class Vocabulary:
    """The language as defined by the block kinds and one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.kinds: Mapping[str, Settings] = {kind: by_name(settings) for kind, settings in catalog.kinds.items()}
        self._rows: dict[str, Mapping[str, CatalogEntry]] = {}

    def rows(self, family: str) -> Mapping[str, CatalogEntry]:
        """The rows of a family, by name."""
        if family not in self._rows:
            self._rows[family] = self.catalog.rows(family)
        return self._rows[family]

    @property
    def fileless(self) -> frozenset[str]:
        """Stores whose memories have no files, so that `path` has no meaning."""
        return frozenset(name for name, row in self.rows("store").items() if not row.files)

    @property
    def append_only(self) -> frozenset[str]:
        """Stores that delete nothing, so that `retention` has no meaning."""
        return frozenset(name for name, row in self.rows("store").items() if not row.expires)

    @cached_property
    def services(self) -> Mapping[str, Mapping[str, CatalogEntry]]:
        """By kind of block: the rows that a setting may name instead of such a block. A block of the kind cannot have
        the name of one of these rows."""
        waiting = [setting for settings in self.kinds.values() for setting in settings.values()]
        found = {}
        for setting in waiting:
            waiting += setting.settings
            if setting.type == "variant" and setting.block is not None:
                found[setting.block] = self.rows(setting.family or "")
        return found

    def names_block(self, setting: Setting, name: str) -> bool:
        """True if `name`, as a value of `setting`, is the name of a block and not a row."""
        return setting.block is not None and name not in self.rows(setting.family or "")

    def at(self, path: Sequence[tuple[str, str | None]]) -> Settings | None:
        """Settings of the body at `path`: the block's kind and name, then each key with its value, if any.

        None if the path is unknown.
        """
        if not path:
            return None
        settings = self.kinds.get(path[0][0])
        for key, value in path[1:]:
            setting = (settings or {}).get(key)
            if setting is None:
                return None
            if setting.type == "map":
                settings = MapSettings(setting)
            elif setting.type == "group":
                settings = by_name(setting.settings)
            else:
                row = self.rows(setting.family or "").get(value or "")
                settings = by_name(row.options) if row else None
        return settings
