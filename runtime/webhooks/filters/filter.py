"""Filters: which deliveries a webhook wants, decided on what was verified. Compiled once per webhook."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from dslc.blocks.filter import Condition
from runtime.webhooks.filters.comparison import as_texts, compile_tests
from runtime.webhooks.request.field_source import Read
from runtime.webhooks.request.headers import Headers
from runtime.webhooks.request.json_path import compile_path, is_general
from runtime.webhooks.request.json_path_limit import bounded
from runtime.webhooks.request.payload import Payload

Holds = Callable[[Headers, Payload], bool]
"""Says whether a filter holds of a request. Raises `Refused`: `ambiguous_header` for a header it looks at that was sent
twice, and whatever keeps the payload it looks into from being read (`invalid_json`, `duplicate_key`, `too_deep`,
`too_complex`)."""

_MORE = re.compile(r"[.:/]")
"""What an event's name goes on with below its beginning: `invoice.paid`, `pullrequest:created`, `orders/create`."""


class Filters:
    """All that must hold of a delivery before it is run."""

    def __init__(
        self, events: Sequence[str], action: Read | None, filters: Sequence[Holds], *, searching: bool = False
    ) -> None:
        """`searching`: whether a path of them may look at the whole payload, which takes a while. `action` reads what
        an event of `events` may be followed by, `pull_request.opened`; None when the provider says it in the event
        itself."""
        self.searching = searching
        self._events = frozenset(events)
        self._action = action
        self._filters = tuple(enumerate(filters, start=1))

    def refusing(self, event: str | None, headers: Headers, payload: Payload) -> str | None:
        """Who does not want the delivery: `event`, or `filter_2` for the second filter; None when all want it.

        `event`: as the provider's row identified it. Raises `Refused` as `Holds` does.
        """
        if self._events and not self.wants(event, headers, payload):
            return "event"
        with bounded():
            for number, holds in self._filters:
                if not holds(headers, payload):
                    return f"filter_{number}"
        return None

    def wants(self, event: str | None, headers: Headers, payload: Payload) -> bool:
        """Whether the event is one of those asked for, or begins with one up to a `.`, `:` or `/`."""
        if event is None:
            return False
        if any(name in self._events for name in beginnings(event)):
            return True
        if not any(name.startswith(f"{event}.") for name in self._events):
            return False  # whatever the action is, which stands in the payload
        return any(name in self._events for name in beginnings(self.name_of(event, headers, payload)))

    def name_of(self, event: str, headers: Headers, payload: Payload) -> str:
        """The event with its action behind it, where the provider says that apart: `pull_request.opened`."""
        action = None if self._action is None else self._action(headers, payload)
        return event if action is None else f"{event}.{action}"


class JsonOnly(Filters):
    """Wants every delivery whose payload can be read."""

    def __init__(self) -> None:
        super().__init__((), None, (lambda headers, payload: (payload.value(), True)[1],))


def compile_filters(
    rules: Iterable[Condition], events: Sequence[str] = (), action: Read | None = None
) -> Filters | None:
    """One decision of all rules and events, in their order; None when there are none and no payload is needed.

    Raises ValueError when a path is not a JSONPath or a pattern none of RE2.
    """
    rules = tuple(rules)
    filters = [compile_filter(rule) for rule in rules]
    searching = any(_searches(rule) for rule in rules)
    return Filters(events, action, filters, searching=searching) if filters or events else None


def compile_filter(rule: Condition) -> Holds:
    """All that a rule says: what it compares, each of its `any`, none of its `not`. Raises ValueError as above."""
    parts: list[Holds] = []
    if rule.json_path is not None:
        parts.append(_on_path(rule.json_path, rule))
    if rule.header is not None:
        parts.append(_on_header(rule.header, rule))
    parts += [_any([compile_filter(inner) for inner in group.filter]) for group in getattr(rule, "any", ())]
    parts += [_not(compile_filter(inner)) for inner in getattr(rule, "not_", ())]
    if not parts:
        raise ValueError("a filter says nothing")
    return parts[0] if len(parts) == 1 else _all(parts)


def _searches(rule: Condition) -> bool:
    inner = [each for group in getattr(rule, "any", ()) for each in group.filter] + list(getattr(rule, "not_", ()))
    return (rule.json_path is not None and is_general(rule.json_path)) or any(map(_searches, inner))


def beginnings(event: str) -> Iterable[str]:
    """The event's name, and what stands before each `.`, `:` or `/` in it."""
    yield event
    for sign in _MORE.finditer(event):
        yield event[: sign.start()]


def _on_path(path: str, rule: Condition) -> Holds:
    """Of the nodes that the path finds, one is enough; it passes all tests. Nothing exists that the path does not find,
    and null exists."""
    find, tests = compile_path(path), compile_tests(rule)
    if rule.exists is False:
        return lambda headers, payload: not find(payload.value())
    if not tests:
        return lambda headers, payload: bool(find(payload.value()))
    if len(tests) == 1:
        test = tests[0]
        return lambda headers, payload: any(map(test, find(payload.value())))
    return lambda headers, payload: any(all(test(node) for test in tests) for node in find(payload.value()))


def _on_header(name: str, rule: Condition) -> Holds:
    """The header's exact value, without the white space around it; an empty one exists."""
    lower, tests, absent = name.lower(), compile_tests(as_texts(rule)), rule.exists is False

    def holds(headers: Headers, payload: Payload) -> bool:
        value = headers.one(lower, repeated="ambiguous_header")
        if value is None:
            return absent
        return not absent and all(test(value) for test in tests)

    return holds


def _all(parts: Sequence[Holds]) -> Holds:
    return lambda headers, payload: all(holds(headers, payload) for holds in parts)


def _any(parts: Sequence[Holds]) -> Holds:
    return lambda headers, payload: any(holds(headers, payload) for holds in parts)


def _not(holds: Holds) -> Holds:
    return lambda headers, payload: not holds(headers, payload)
