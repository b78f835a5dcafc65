"""Sample deliveries of the most used providers, to test a webhook with.

`NAME.json` has those of one provider by event: `json` or `form` is the body, `event` the value of the event's header if
it is not the name, `headers` are additional ones. They follow the vendors' documentation, with invented values. A text
may contain placeholders: `{id}`, the delivery's id, and `{hex}`, the same without dashes; `{iso}`, the time; and alone
in its text, as a number, `{now}` (Unix seconds) or `{now_ms}`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import urlencode

from runtime.clock import rfc3339
from runtime.errors import UsageError
from runtime.webhooks.providers.provider import Provider
from runtime.webhooks.request.content import FORM
from runtime.webhooks.request.field_source import BODY, header_name


class Sample(NamedTuple):
    """A delivery to sign."""

    name: str
    """The sample's name, such as `pull_request.opened`."""
    event: str | None
    """The value of the event's header, if there is one."""
    body: bytes
    headers: tuple[tuple[str, str], ...]
    """Headers in addition to the signature; the content type."""
    is_generic: bool
    """True: the provider has no sample, so this is a generic one."""


@cache
def names() -> tuple[str, ...]:
    """Return the providers that have samples."""
    found = (entry.name for entry in files(__package__).iterdir())
    return tuple(sorted(name.removesuffix(".json") for name in found if name.endswith(".json")))


@cache
def events(provider: str) -> tuple[str, ...]:
    """Return the events for which `provider` has samples."""
    return tuple(_load_samples(provider)) if provider in names() else ()


def make(provider: Provider, event: str | None, *, now: float, delivery_id: str) -> Sample:
    """Return a sample of `event` (None: the first) as `provider` would send it at `now` (Unix seconds).

    `event` may also be the beginning of a sample's name, up to a dot, slash or underscore. Raises UsageError, with the
    nearest names, if the provider has no sample of the event. A provider without samples gets a generic one.
    """
    known = events(provider.name)
    if not known:
        return _generic_sample(provider, event, now=now, delivery_id=delivery_id)
    name = _sample_name(event, known, provider) if event else known[0]
    wanted = _load_samples(provider.name)[name]
    places = _placeholders(now, delivery_id)
    headers = tuple((key, str(_fill(value, places))) for key, value in wanted.get("headers", {}).items())
    if "form" in wanted:
        body, content_type = urlencode(_fill(wanted["form"], places)).encode(), FORM
    else:
        body, content_type = _json(_fill(wanted["json"], places)), "application/json"
    return Sample(name, wanted.get("event", name), body, (("Content-Type", content_type), *headers), is_generic=False)


def _sample_name(event: str, known: tuple[str, ...], provider: Provider) -> str:
    if event in known:
        return event
    begun = [name for name in known if name.startswith(event) and not name[len(event)].isalnum()]
    if begun:
        return begun[0]
    near = get_close_matches(event, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(known)}"
    raise UsageError(f"there is no sample of {provider.title}'s event {event!r}", hint=hint)


@cache
def _load_samples(provider: str) -> Mapping[str, Any]:
    value = json.loads((files(__package__) / f"{provider}.json").read_bytes())
    assert isinstance(value, dict)
    return value


def _placeholders(now: float, delivery_id: str) -> dict[str, object]:
    return {
        "{id}": delivery_id,
        "{hex}": delivery_id.replace("-", ""),
        "{iso}": rfc3339(now),
        "{now}": int(now),
        "{now_ms}": int(now * 1000),
    }


def _fill(value: Any, places: Mapping[str, object]) -> Any:
    """Return `value` with its placeholders replaced."""
    if isinstance(value, dict):
        return {key: _fill(each, places) for key, each in value.items()}
    if isinstance(value, list):
        return [_fill(each, places) for each in value]
    if not isinstance(value, str) or "{" not in value:
        return value
    if value in places:
        return places[value]
    for place, text in places.items():
        value = value.replace(place, str(text))
    return value


def _generic_sample(provider: Provider, event: str | None, *, now: float, delivery_id: str) -> Sample:
    """Return a generic sample: the event and the id where the provider's row looks for them."""
    name = event or provider.sample_event or "test"
    body: dict[str, Any] = {"note": "a sample delivery", "sent_at": rfc3339(now)}
    for sources, text in ((provider.event, name), (provider.delivery_id, delivery_id)):
        if sources and header_name(sources[0]) is None:
            _put(body, sources[0], text)
    if not provider.event:
        body["event"] = name
    if BODY in provider.delivery_id:
        body["sample"] = delivery_id  # so that two samples are two deliveries
    form = provider.content_type == FORM
    data = (
        urlencode({key: each for key, each in body.items() if isinstance(each, str)}).encode() if form else _json(body)
    )
    return Sample(name, name, data, (("Content-Type", provider.content_type),), is_generic=True)


def _put(body: dict[str, Any], path: str, text: str) -> None:
    """Put `text` at a plain path such as `$.data.id`; ignore other paths."""
    parts = path.removeprefix("$.").split(".")
    if not path.startswith("$.") or not all(part.replace("_", "").isalnum() for part in parts):
        return
    for part in parts[:-1]:
        inner = body.setdefault(part, {})
        if not isinstance(inner, dict):
            return
        body = inner
    body[parts[-1]] = text


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
