"""Allowed settings of every body, looked up by the path of keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dslc.catalog import Catalog, CatalogEntry
from dslc.setting import Setting

Settings = Mapping[str, Setting]


def by_name(settings: Sequence[Setting]) -> Settings:
    """Index settings by name."""
    return {setting.name: setting for setting in settings}


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
            if setting.type == "group":
                settings = by_name(setting.settings)
            else:
                row = self.rows(setting.family or "").get(value or "")
                settings = by_name(row.options) if row else None
        return settings
