"""Explains the result of each filter of a webhook for a delivery."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from dslc.blocks.filter import Condition
from dslc.blocks.webhook import Webhook
from runtime.webhooks.filters.filter import Filters, compile_filter, compile_filters
from runtime.webhooks.providers import find_provider
from runtime.webhooks.providers.provider import Provider
from runtime.webhooks.request.field_source import compile_sources
from runtime.webhooks.request.headers import Headers
from runtime.webhooks.request.json_path import compile_path
from runtime.webhooks.request.payload import Payload
from runtime.webhooks.request.refusal import RefusedRequest

_MOST = 5
_LENGTH = 80
_TESTS = ("equals", "one_of", "contains", "matches", "exists")


@dataclass(frozen=True, slots=True)
class ExplanationLine:
    """One filter, or a part of one.

    `name`: `event`, `filter_1`, or a nested part: `any`, `filter`, `not`. `depth`: 0 for the filters themselves.
    `says`: the filter as the program has it. `values`: the first few values found, as JSON, long ones cut; `found`:
    their number. `holds`: True if the part passes (of a `not`, if its condition does not hold). None if reading the
    request refuses it; `refused` gives the reason.
    """

    name: str
    depth: int
    says: str
    values: tuple[str, ...] = ()
    found: int = 0
    holds: bool | None = None
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The result for a delivery. `event`: the delivery's, with its action if the provider has one; None if the provider
    sends none. `refusing`: the filter that refuses it, None if it runs. `refused`: why it is not even filtered; a key
    of `REASONS`."""

    event: str | None
    refusing: str | None
    refused: str | None
    lines: tuple[ExplanationLine, ...] = field(default=())

    @property
    def wanted(self) -> bool:
        """True if the delivery would run."""
        return self.refusing is None and self.refused is None


def explain(
    webhook: Webhook,
    headers: Sequence[tuple[str, str]],
    body: bytes,
    *,
    decoded: bool = False,
    subject: str | None = None,
) -> Explanation:
    """Explain the decision of `webhook` about a verified request, without sending it. Needs no secret. `decoded`: True
    if what runs needs the decoded payload. `subject`: the JSONPath of the subject of a keyed thread."""
    row = _row(webhook)
    seen = Headers(headers)
    payload = row.payload(body, seen.get("content-type"))
    action = compile_sources(row.action, malformed="malformed_event") if row.action else None
    filters = compile_filters(webhook.filter, webhook.event, action, decoded=decoded)
    lines: list[ExplanationLine] = []
    event = refusing = refused = None
    try:
        event = compile_sources(row.event, malformed="malformed_event")(seen, payload)
        compile_sources(row.delivery_id, malformed="malformed_delivery_id")(seen, payload)
        refusing = None if filters is None else filters.refusing_filter(event, seen, payload)
        event = event if event is None or filters is None else filters.name_of(event, seen, payload)
    except RefusedRequest as caught:
        refused = caught.reason
    if webhook.event and filters is not None:
        lines.append(_event(webhook, filters, event, refused, seen, payload))
    for number, rule in enumerate(webhook.filter, start=1):
        lines += _lines(f"filter_{number}", 0, rule, seen, payload)
    if subject is not None:
        lines.append(_subject(subject, payload))
    return Explanation(event, refusing, refused, tuple(lines))


def _subject(json_path: str, payload: Payload) -> ExplanationLine:
    try:
        found = list(compile_path(json_path)(payload.value()))
    except RefusedRequest as caught:
        return ExplanationLine("subject", 0, f"subject {json_path}", refused=caught.reason)
    return ExplanationLine(
        "subject", 0, f"subject {json_path}", tuple(map(_short_json, found[:_MOST])), len(found), len(found) == 1
    )


def sent_headers(webhook: Webhook, event: str | None, delivery_id: str) -> list[tuple[str, str]]:
    """Return the headers that identify a delivery, as its sender would send them, without the signature."""
    row = _row(webhook)
    return row.headers(event or row.sample_event, delivery_id)


def _row(webhook: Webhook) -> Provider:
    row = find_provider(webhook.provider.name)
    try:
        return row.with_options(webhook.provider.options)
    except ValueError:  # an option may be a secret that is unavailable here, and does not affect the event
        return row


def _event(
    webhook: Webhook, filters: Filters, event: str | None, refused: str | None, headers: Headers, payload: Payload
) -> ExplanationLine:
    """`refused`: why the event is unknown, if it is None."""
    names = ", ".join(map(_short_json, webhook.event))
    says = f"event {names}" if len(webhook.event) == 1 else f"event [{names}]"
    if event is None:
        return ExplanationLine("event", 0, says, (), 0, None if refused else False, refused)
    try:
        return ExplanationLine("event", 0, says, (_short_json(event),), 1, filters.wants(event, headers, payload))
    except RefusedRequest as caught:  # the action is in the payload
        return ExplanationLine("event", 0, says, (_short_json(event),), 1, None, caught.reason)


def _lines(name: str, depth: int, rule: Condition, headers: Headers, payload: Payload) -> Iterator[ExplanationLine]:
    """Explain the rule, then its nested parts. The language bounds the depth."""
    inner = list(_nested_lines(depth, rule, headers, payload))
    verdict, refused = _verdict(rule, headers, payload)
    values, found = _values(rule, headers, payload)
    holds = verdict if verdict is None or name != "not" else not verdict
    yield ExplanationLine(name, depth, _rule_text(rule), values, found, holds, refused)
    yield from inner


def _nested_lines(depth: int, rule: Condition, headers: Headers, payload: Payload) -> Iterator[ExplanationLine]:
    for group in getattr(rule, "any", ()):
        parts = [list(_lines("filter", depth + 2, each, headers, payload)) for each in group.filter]
        verdicts = [part[0].holds for part in parts]
        yield ExplanationLine(
            "any", depth + 1, "", holds=True if True in verdicts else None if None in verdicts else False
        )
        for part in parts:
            yield from part
    for each in getattr(rule, "not_", ()):
        yield from _lines("not", depth + 1, each, headers, payload)


def _verdict(rule: Condition, headers: Headers, payload: Payload) -> tuple[bool | None, str | None]:
    try:
        return compile_filter(rule)(headers, payload), None
    except RefusedRequest as refused:
        return None, refused.reason


def _values(rule: Condition, headers: Headers, payload: Payload) -> tuple[tuple[str, ...], int]:
    nodes: list[Any] = []
    try:
        if rule.json_path is not None:
            nodes = compile_path(rule.json_path)(payload.value())
        elif rule.header is not None:
            value = headers.one(rule.header.lower(), repeated="ambiguous_header")
            nodes = [] if value is None else [value]
    except RefusedRequest:
        return (), 0
    return tuple(map(_short_json, nodes[:_MOST])), len(nodes)


def _rule_text(rule: Condition) -> str:
    where = next(((name, value) for name in ("json_path", "header") if (value := getattr(rule, name))), None)
    tests = [(name, value) for name in _TESTS if (value := getattr(rule, name)) not in (None, ())]
    return " ".join(f"{name} {_value_text(value)}" for name, value in ([where] if where else []) + tests)


def _value_text(value: Any) -> str:
    return f"[{', '.join(map(_short_json, value))}]" if isinstance(value, tuple) else _short_json(value)


def _short_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    text = "".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in text)
    return text if len(text) <= _LENGTH else f"{text[: _LENGTH - 1]}…"
