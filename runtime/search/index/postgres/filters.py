"""Turns a filter into conditions on the table `places`."""

from __future__ import annotations

from typing import Any

from runtime.search.entry import ALL_SUBJECTS, EntryFilter
from runtime.search.index.embedded.schema import microseconds
from runtime.search.index.postgres.stemming import code, to_postgres


class Where:
    """Conditions with their values, numbered after those that a statement already has."""

    def __init__(self, *values: Any) -> None:
        self.values: list[Any] = list(values)
        self._conditions: list[str] = []

    def add(self, condition: str, value: Any) -> None:
        """Add a condition in which `?` is replaced by the value."""
        self.values.append(value)
        self._conditions.append(condition.replace("?", f"${len(self.values)}"))

    def wanted(self, filters: EntryFilter) -> Where:
        """Return the conditions of a filter."""
        self.scope(filters.agent, filters.user)
        for name in ("project", "type"):
            value = getattr(filters, name)
            if value is not None:
                self.add(f"p.{name} = ?::text", to_postgres(value))
        if filters.source is not None:
            self.values.append([code(filters.source)])
            other = f"p.other_sources @> ${len(self.values)}::bigint[]"
            self.add(f"(p.source = ?::text OR {other})", to_postgres(filters.source))
        if filters.since is not None:
            self.add("p.time >= ?::bigint", microseconds(filters.since))
        if filters.until is not None:
            self.add("p.time < ?::bigint", microseconds(filters.until))
        if filters.tags_any:
            self.add("p.tags && ?::bigint[]", [code(tag) for tag in filters.tags_any])
        if filters.tags_all:
            self.add("p.tags @> ?::bigint[]", [code(tag) for tag in filters.tags_all])
        return self._of_changes(filters)

    def _of_changes(self, filters: EntryFilter) -> Where:
        if filters.subject is None:
            self._conditions.append("p.subject IS NULL")
        elif filters.subject is not ALL_SUBJECTS:
            self.add("p.subject = ?::text", to_postgres(str(filters.subject)))
        if filters.changes_of:
            named = "SELECT key FROM changes WHERE replaces = ANY(?::text[]) OR retracts = ANY(?::text[])"
            self.add(f"p.key IN ({named})", list(map(to_postgres, filters.changes_of)))
        if filters.current:
            self._conditions.append("NOT p.hidden")
        return self

    def scope(self, agent: str | None, user: str | None) -> Where:
        """Return the conditions of an agent and a user."""
        if agent is not None:
            self.add("p.agent = ?::text", to_postgres(agent))
        if user is not None:
            self.add('p."user" = ?::text', to_postgres(user))
        return self

    @property
    def sql(self) -> str:
        """Return all of them as SQL; `true` if there are none."""
        return " AND ".join(self._conditions) or "true"
