"""Filters: decide which verified deliveries a webhook accepts. Compiled once per webhook."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from dslc.blocks.filter import Condition
from runtime.webhooks.filters.comparison import as_texts, compile_tests
from runtime.webhooks.request.field_source import FieldReader
from runtime.webhooks.request.headers import Headers
from runtime.webhooks.request.json_path import compile_path, is_general
from runtime.webhooks.request.json_path_limit import node_limit
from runtime.webhooks.request.payload import Payload

Predicate = Callable[[Headers, Payload], bool]
"""Returns True if a filter accepts a request. Raises `RefusedRequest`: `ambiguous_header` if a header that it reads was
sent twice, and the reason why the payload cannot be read (`invalid_json`, `duplicate_key`, `too_deep`,
`too_complex`)."""

_MORE = re.compile(r"[.:/]")
"""Separators in an event's name: `invoice.paid`, `pullrequest:created`, `orders/create`."""


class Filters:
    """All conditions that a delivery must meet to run."""

    def __init__(
        self,
        events: Sequence[str],
        action: FieldReader | None,
        filters: Sequence[Predicate],
        *,
        searching: bool = False,
        decoded: bool = False,
    ) -> None:
        """`searching`: True if a path may visit the whole payload, which takes a while. `decoded`: True if a payload
        that cannot be decoded is refused. `action` reads the action that an event of `events` may be followed by,
        `pull_request.opened`; None if the provider puts it into the event itself."""
        self.searching = searching
        self._decoded = decoded
        self._events = frozenset(events)
        self._action = action
        self._filters = tuple(enumerate(filters, start=1))

    def refusing_filter(self, event: str | None, headers: Headers, payload: Payload) -> str | None:
        """Return the filter that refuses the delivery: `event`, or `filter_2` for the second filter; None if all accept
        it.

        `event`: as the provider's row identified it. Raises `RefusedRequest` as `Predicate` does.
        """
        if self._events and not self.wants(event, headers, payload):
            return "event"
        if self._decoded:
            payload.value()
        with node_limit():
            for number, holds in self._filters:
                if not holds(headers, payload):
                    return f"filter_{number}"
        return None

    def wants(self, event: str | None, headers: Headers, payload: Payload) -> bool:
        """Return True if the event is one of those wanted, or begins with one up to a `.`, `:` or `/`."""
        if event is None:
            return False
        if any(name in self._events for name in beginnings(event)):
            return True
        if not any(name.startswith(f"{event}.") for name in self._events):
            return False  # whatever the action in the payload is
        return any(name in self._events for name in beginnings(self.name_of(event, headers, payload)))

    def name_of(self, event: str, headers: Headers, payload: Payload) -> str:
        """Return the event with its action, if the provider sends that separately: `pull_request.opened`."""
        action = None if self._action is None else self._action(headers, payload)
        return event if action is None else f"{event}.{action}"


def compile_filters(
    rules: Iterable[Condition], events: Sequence[str] = (), action: FieldReader | None = None, *, decoded: bool = False
) -> Filters | None:
    """Compile all rules and events, in their order, to one decision; None if there are none and no payload is needed.
    `decoded`: True if what runs needs the decoded payload.

    Raises ValueError if a path is not a JSONPath or a pattern is not supported by RE2.
    """
    rules = tuple(rules)
    filters = [compile_filter(rule) for rule in rules]
    searching = any(_is_searching(rule) for rule in rules)
    if not (filters or events or decoded):
        return None
    return Filters(events, action, filters, searching=searching, decoded=decoded)


def compile_filter(rule: Condition) -> Predicate:
    """Compile a rule: its comparisons, at least one of each `any`, none of its `not`. Raises ValueError for an invalid
    path or pattern."""
    parts: list[Predicate] = []
    if rule.json_path is not None:
        parts.append(_on_path(rule.json_path, rule))
    if rule.header is not None:
        parts.append(_on_header(rule.header, rule))
    parts += [_any([compile_filter(inner) for inner in group.filter]) for group in getattr(rule, "any", ())]
    parts += [_not(compile_filter(inner)) for inner in getattr(rule, "not_", ())]
    if not parts:
        raise ValueError("a filter has no condition")
    return parts[0] if len(parts) == 1 else _all(parts)


def _is_searching(rule: Condition) -> bool:
    inner = [each for group in getattr(rule, "any", ()) for each in group.filter] + list(getattr(rule, "not_", ()))
    return (rule.json_path is not None and is_general(rule.json_path)) or any(map(_is_searching, inner))


def beginnings(event: str) -> Iterable[str]:
    """Return the event's name, and its parts before each `.`, `:` or `/`."""
    yield event
    for sign in _MORE.finditer(event):
        yield event[: sign.start()]


def _on_path(path: str, rule: Condition) -> Predicate:
    """Return a filter that one of the nodes found must pass, with all tests. A value that the path does not find does
    not exist; null exists."""
    find, tests = compile_path(path), compile_tests(rule)
    if rule.exists is False:
        return lambda headers, payload: not find(payload.value())
    if not tests:
        return lambda headers, payload: bool(find(payload.value()))
    if len(tests) == 1:
        test = tests[0]
        return lambda headers, payload: any(map(test, find(payload.value())))
    return lambda headers, payload: any(all(test(node) for test in tests) for node in find(payload.value()))


def _on_header(name: str, rule: Condition) -> Predicate:
    """Return a filter of the header's exact value, without surrounding white space; an empty value exists."""
    lower, tests, absent = name.lower(), compile_tests(as_texts(rule)), rule.exists is False

    def holds(headers: Headers, payload: Payload) -> bool:
        value = headers.one(lower, repeated="ambiguous_header")
        if value is None:
            return absent
        return not absent and all(test(value) for test in tests)

    return holds


def _all(parts: Sequence[Predicate]) -> Predicate:
    return lambda headers, payload: all(holds(headers, payload) for holds in parts)


def _any(parts: Sequence[Predicate]) -> Predicate:
    return lambda headers, payload: any(holds(headers, payload) for holds in parts)


def _not(holds: Predicate) -> Predicate:
    return lambda headers, payload: not holds(headers, payload)
