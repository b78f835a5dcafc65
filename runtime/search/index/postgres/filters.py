"""Turns a filter into conditions on the table `entry_facts`."""

from __future__ import annotations

from typing import Any

from runtime.search.entry import ALL_SUBJECTS, EntryFilter
from runtime.search.index.embedded.schema import microseconds
from runtime.search.index.postgres.text import to_postgres

_SAME = '({0}.agent, {0}."user") = ({1}.agent, {1}."user") AND {0}.subject IS NOT DISTINCT FROM {1}.subject'
_RETRACTED = "EXISTS (SELECT FROM entry_facts r WHERE r.retracts = {0}.id AND " + _SAME.format("r", "{0}") + ")"
_CURRENT = (
    f"f.retracts IS NULL AND NOT {_RETRACTED.format('f')}"
    f" AND NOT EXISTS (SELECT FROM entry_facts c WHERE c.replaces = f.id AND {_SAME.format('c', 'f')}"
    f" AND NOT {_RETRACTED.format('c')})"
)
"""Conditions of entries that are not hidden: see `runtime.memory.succession`."""


class Where:
    """Conditions with their values, numbered after those that a statement already has."""

    def __init__(self, *values: Any) -> None:
        self.values: list[Any] = list(values)
        self._conditions: list[str] = []

    def add(self, condition: str, value: Any) -> None:
        """Add a condition in which `?` is replaced by the value."""
        self.values.append(value)
        self._conditions.append(condition.replace("?", f"${len(self.values)}"))

    def add_filter(self, filters: EntryFilter) -> Where:
        """Add the conditions of a filter; return self."""
        self.add_scope(filters)
        for name in ("project", "type"):
            value = getattr(filters, name)
            if value is not None:
                self.add(f"f.{name} = ?::text", to_postgres(value))
        if filters.source is not None:
            self.add("(f.source = ?::text OR ?::text = ANY(f.other_sources))", to_postgres(filters.source))
        if filters.since is not None:
            self.add("f.time >= ?::bigint", microseconds(filters.since))
        if filters.until is not None:
            self.add("f.time < ?::bigint", microseconds(filters.until))
        if filters.tags_any:
            self.add("f.tags && ?::text[]", list(map(to_postgres, filters.tags_any)))
        if filters.tags_all:
            self.add("f.tags @> ?::text[]", list(map(to_postgres, filters.tags_all)))
        return self._add_change_filter(filters)

    def _add_change_filter(self, filters: EntryFilter) -> Where:
        if filters.subject is None:
            self._conditions.append("f.subject IS NULL")
        elif filters.subject is not ALL_SUBJECTS:
            self.add("f.subject = ?::text", to_postgres(str(filters.subject)))
        if filters.changes_of:
            named = list(map(to_postgres, filters.changes_of))
            self.add("(f.replaces = ANY(?::text[]) OR f.retracts = ANY(?::text[]))", named)
        if filters.current:
            self._conditions.append(_CURRENT)
        return self

    def add_scope(self, filters: EntryFilter) -> Where:
        """Add the conditions of the filter's agent and user; return self."""
        if filters.agent is not None:
            self.add("f.agent = ?::text", to_postgres(filters.agent))
        if filters.user is not None:
            self.add('f."user" = ?::text', to_postgres(filters.user))
        return self

    @property
    def sql(self) -> str:
        """Return all of them as SQL; `true` if there are none."""
        return " AND ".join(self._conditions) or "true"
