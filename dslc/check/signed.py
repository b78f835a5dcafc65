"""Checks that the data on which a webhook decides is signed by its scheme."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lark import Token

from dslc.blocks.checked_variant import CheckedVariant
from dslc.catalog import CatalogEntry
from dslc.syntax.tree import EntryNode
from dslc.value_reading.check_state import BodyValues, CheckedHead, CheckState

_PART = re.compile(r"\{([^{}]*)\}")
_HEADER = "header:"


class _Signer(NamedTuple):
    """The provider of a webhook with its options.

    `parts`: signed parts; None if unknown. `events`: places of the event; None if unknown. `by`: option with which the
    author of the program names that place, if the vendor does not define it.
    """

    name: str
    by: str | None
    parts: frozenset[str] | None
    events: tuple[str, ...] | None

    def signs(self, part: str) -> bool:
        """True if `body` or `header:NAME` is signed, or if this is unknown."""
        return self.parts is None or part in self.parts

    def signed_parts(self) -> str:
        """Hint that lists the signed parts."""
        return f"it signs {', '.join(sorted(self.parts or ())) or 'nothing'}"


def signed_filters(context: CheckState, given: BodyValues, _: CheckedHead) -> None:
    """Warn about a filter on an unsigned body or header: anyone who can change it decides which requests pass."""
    signer = _signer(context, given)
    if signer is None or len(given.entries.get("filter", ())) != len(_values(given)):
        return
    for entry in given.entries.get("filter", ()):
        for key, part in _filter_parts(entry):
            if not signer.signs(part):
                what = "the body" if part == "body" else f"the header `{part.removeprefix(_HEADER)}`"
                message = f"this filter uses {what}, which `{signer.name}` does not sign"
                context.collector.add("P504", message, key, hint=signer.signed_parts())
                break  # one filter, one warning


def known_address(context: CheckState, given: BodyValues, _: CheckedHead) -> None:
    """Require `public_url` if the sender signs the URL that it calls, which verification then needs to know.

    Only the program may set it: the process's own address (SYMBIONT_PUBLIC_URL) may differ from the address given to
    this sender, and a program that is valid on one machine must be valid on another.
    """
    signer = _signer(context, given)
    if signer is None or signer.parts is None or "url" not in signer.parts or given.may_have("public_url"):
        return
    provider = given.entry("provider")
    if provider is not None and given.values.get("insecure_allow_unverified") is not True:
        message = f"`{signer.name}` signs the URL that it calls: `public_url` is required"
        hint = 'add `public_url "https://…"` with exactly the address that the sender calls'
        context.reject(given, "T405", message, provider, hint=hint)


def token_in_url(context: CheckState, given: BodyValues, _: CheckedHead) -> None:
    """Warn about a token in the URL: every proxy on the way and the sender's own pages may show it."""
    provider, entry = given.values.get("provider"), given.entry("provider")
    if isinstance(provider, CheckedVariant) and entry is not None and provider.options.get("parameter"):
        message = (
            f"the token is in the URL, as `{provider.options['parameter']}`, where proxies and the sender may log it"
        )
        context.collector.add("P506", message, entry, hint="use `header` if the sender can set one")


def compressed_values(context: CheckState, given: BodyValues, _: CheckedHead) -> None:
    """Refuse a signed text with values of the body if a compressed body is signed as it was sent: it has none."""
    provider, entry = given.values.get("provider"), given.entry("provider")
    if not isinstance(provider, CheckedVariant) or entry is None or provider.options.get("compressed") != "sent":
        return
    values = [part for part in _PART.findall(str(provider.options.get("payload"))) if part.startswith("json:")]
    if values:
        message = f"`compressed sent` excludes `{{{values[0]}}}` in `payload`: compressed bytes have no values"
        hint = "use `compressed content` if the sender signs the uncompressed body, or leave `compressed` out"
        context.reject(given, "T405", message, entry, hint=hint)


def known_event(context: CheckState, given: BodyValues, _: CheckedHead) -> None:
    """Check that the sender names its events if `event` is given, and warn if the event is not signed.

    A vendor's own unsigned event header is accepted without a warning: the vendor has no other one, and signs the
    payload sent with it. The warning is given if the author chose the header, or if no place of the event is signed.
    """
    entry, signer = given.entry("event"), _signer(context, given)
    if entry is None or signer is None or signer.events is None:
        return
    if not signer.events:
        message = f"`event` needs a sender that names its events; `{signer.name}` does not define where"
        option = f'add `{signer.by} "X-Event"` to `provider {signer.name}`'
        hint = option if signer.by else "use a `filter` on the body"
        context.reject(given, "T405", message, entry.key, hint=hint)
        return
    vendors = signer.by is None and signer.signs("body")
    if not vendors and not any(signer.signs(_part_of(source)) for source in signer.events):
        message = f"`event` uses the name of the event, which `{signer.name}` does not sign"
        context.collector.add("P504", message, entry.key, hint=signer.signed_parts())


def _values(given: BodyValues) -> Sequence[object]:
    """The valid filters; the errors of the others have been reported."""
    filters = given.values.get("filter", ())
    return filters if isinstance(filters, tuple) else ()


def _signer(context: CheckState, given: BodyValues) -> _Signer | None:
    """The provider of a webhook with its options; None if it is unknown or invalid."""
    provider = given.values.get("provider")
    if provider is None and not given.may_have("provider"):
        provider = CheckedVariant(context.vocabulary.kinds["webhook"]["provider"].default, {})
    row = context.vocabulary.rows("provider").get(provider.name) if isinstance(provider, CheckedVariant) else None
    if row is None or not isinstance(provider, CheckedVariant):
        return None
    return _Signer(provider.name, row.event_by, _signed_parts(row, provider), _events(row, provider))


def _signed_parts(row: CatalogEntry, provider: CheckedVariant) -> frozenset[str] | None:
    if row.signed_by is not None and row.signed_by in provider.options:
        template = any(option.name == row.signed_by and option.default is not None for option in row.options)
        parts = _PART.findall(str(provider.options[row.signed_by])) if template else ["body"]
        return frozenset(part.lower() if part.startswith(_HEADER) else part for part in parts)
    return None if row.signed is None else frozenset(map(str.lower, row.signed))


def _events(row: CatalogEntry, provider: CheckedVariant) -> tuple[str, ...] | None:
    if row.event_by is not None and row.event_by in provider.options:
        return (f"{_HEADER}{provider.options[row.event_by]}",)
    return row.event


def _part_of(source: str) -> str:
    """The part of a request that holds this source of the event."""
    return source.lower() if source.startswith(_HEADER) else "body"


def _filter_parts(group: EntryNode) -> Iterator[tuple[Token, str]]:
    """Yield each part of the request that a filter reads, at any depth, with the key of the group. The parser bounds
    the depth."""
    for entry in group.body.entries if group.body is not None else ():
        if entry.key == "json_path":
            yield group.key, "body"
        elif entry.key == "header" and isinstance(entry.value, Token):
            name = entry.value.strip('"').lower()
            yield group.key, f"{_HEADER}{name}"
        elif entry.key in {"any", "filter", "not"}:
            yield from _filter_parts(entry)
