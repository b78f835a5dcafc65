"""Facts of an item that Markdown cannot show, in a comment after its lines: `<!-- symbi {…} -->`.

The visible text always wins. `text` holds an item's exact text if the visible form cannot, and is valid only while the
visible form is unchanged: a person's edit of the line is an edit of the item.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated

import msgspec

from runtime.memory.item import OWNER, Item, Provenance, RiskTier, SaidBy, Twins, idempotency_key, rfc3339

MARK = "<!-- symbi"
"""The beginning of every annotation."""
_OPEN = f"{MARK} {{"
_CLOSE = "} -->"
GUARD = f"{_OPEN}{_CLOSE}"
"""An empty annotation. It replaces removed text that kept a comment open (see `literal_ranges`)."""
_UNSAFE = re.compile("[<>\x7f-\x9f\u2028\u2029\ufeff]")  # JSON itself escapes characters below U+0020


class Origin(msgspec.Struct, frozen=True, omit_defaults=True):
    """An item's `Provenance` as an annotation has it; None or empty where unknown."""

    author: str | None = None
    session_id: str | None = None
    task: str | None = None
    confidence: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    risk_tier: RiskTier | None = None
    git_commit: str | None = None
    sources: tuple[str, ...] = ()
    run_id: str | None = None
    said_by: SaidBy | None = None

    @classmethod
    def of(cls, provenance: Provenance) -> Origin | None:
        """Return the annotation's form of a provenance; None if it is empty."""
        return None if provenance == _NOTHING_KNOWN else cls(**dict(provenance))

    @property
    def provenance(self) -> Provenance:
        """Return it as an item has it."""
        return Provenance(**msgspec.structs.asdict(self))


_NOTHING_KNOWN = Provenance()


class Annotation(msgspec.Struct, frozen=True, omit_defaults=True):
    """The facts of an item that its lines do not show; None or empty where there are none."""

    at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    tags: tuple[str, ...] = ()
    source: str | None = None
    other_sources: tuple[str, ...] = ()
    project: str | None = None
    user: str | None = None
    sources: tuple[str, ...] = ()
    provenance: Origin | None = None
    subject: str | None = None
    replaces: str | None = None
    retracts: str | None = None
    text: str | None = None

    def twins(self, chunk_hash: str) -> Twins:
        """Return the `twins` of the item with this chunk_hash and annotation."""
        return Twins(chunk_hash, OWNER if self.user is None else self.user, self.subject, self.replaces)

    def copy(self, *, at: datetime | None, text: str | None) -> Annotation:
        """Return it with this time and this exact text."""
        return msgspec.structs.replace(self, at=at, text=text)

    def render(self) -> str:
        """Return the comment, empty if there are no facts. It is one line without any other `<` or `>`."""
        if self == NOTHING:
            return ""
        encoded = msgspec.json.encode(self).decode()
        return f"<!-- symbi {_UNSAFE.sub(_escape_match, encoded)} -->"


NOTHING = Annotation()
"""The empty annotation."""


def _escape_match(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def annotation_of(item: Item, *, at: datetime | None, tags: tuple[str, ...]) -> Annotation:
    """Return the annotation that `item` needs in addition to its lines."""
    return Annotation(
        at=at,
        tags=tags,
        source=item.source_uri,
        other_sources=item.other_sources,
        project=item.project_id,
        user=item.user_id if item.user_id != OWNER else None,
        sources=item.source_memory_ids,
        provenance=Origin.of(item.provenance),
        subject=item.subject,
        replaces=item.replaces,
        retracts=item.retracts,
    )


def take_annotation(text: str) -> tuple[str, Annotation]:
    """Return a text without its annotations, and the last one that is not empty. Text that only resembles one stays."""
    found, pieces, at = NOTHING, [], 0
    for start, end, annotation in _comments(text):
        found = found if annotation == NOTHING else annotation
        pieces.append(text[at:start].rstrip(" \t"))
        at = end
    return "".join([*pieces, text[at:]]) if pieces else text, found


def with_time(line: str, at: datetime) -> str | None:
    """Return a line with this time added to its last non-empty annotation; None if it has none. Everything else stays,
    also fields of later versions."""
    said = [place for place in _comments(line) if place[2] != NOTHING]
    if not said:
        return None
    start, end, annotation = said[-1]
    inside = start + len(_OPEN)
    dated = f'{line[:inside]}"at":"{rfc3339(at)}",{line[inside:]}'
    if take_annotation(dated)[1] == annotation.copy(at=at, text=annotation.text):
        return dated
    return f"{line[:start]}{annotation.copy(at=at, text=annotation.text).render()}{line[end:]}"


def idempotency_keys(text: str) -> Iterator[str]:
    """Yield the idempotency keys of every complete annotation in a text, in order."""
    for _start, _end, annotation in _comments(text):
        key = idempotency_key(annotation.source)
        if key is not None:
            yield key


def _comments(text: str) -> Iterator[tuple[int, int, Annotation]]:
    """Yield every readable annotation with its beginning and end, in linear time: the last opening mark before an end
    counts, as no annotation contains `<`."""
    at = 0
    while (close := text.find(_CLOSE, at)) >= 0:
        end = close + len(_CLOSE)
        start = text.rfind(_OPEN, max(at, text.rfind("\n", at, close) + 1), close + 1)
        annotation = _decode(text[start + len(_OPEN) - 1 : close + 1]) if start >= 0 else None
        if annotation is not None:
            yield start, end, annotation
        at = end


def _decode(encoded: str) -> Annotation | None:
    """Parse a comment; None if it is not a valid annotation (a person may have changed it)."""
    try:
        read = msgspec.json.decode(encoded, type=Annotation)
        return read if read.at is None else read.copy(at=read.at.astimezone(UTC), text=read.text)
    except (msgspec.DecodeError, ValueError, OverflowError, RecursionError):
        return None
