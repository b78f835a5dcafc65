"""The identity of a summary (the fifth design, M9, "Idempotency key")."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from runtime.memory.item import rfc3339

TAG: Final = "summary"
"""The tag of all summaries."""


def summary_key(project_id: str, start: datetime, end: datetime, source_memory_ids: Iterable[str]) -> str:
    """Return the sha256, in lower-case hex, of project, start and end (RFC 3339 in UTC) and the ids, joined by commas
    in the order of time. Neither the method nor the items' texts are part of it, as clients compute this key from the
    design's formula. `content_of` identifies the texts."""
    text = "".join((project_id, rfc3339(start), rfc3339(end), ",".join(source_memory_ids)))
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def content_of(chunk_hashes: Iterable[str], max_words: int) -> str:
    """Return the sources of a summary, for the `task` of its provenance: equal while the items' texts and the number
    of words are the same."""
    digest = hashlib.sha256("\n".join(chunk_hashes).encode()).hexdigest()[:16]
    return f"summarize in {max_words} words, items {digest}"


def key_tag(key: str) -> str:
    """Return the tag by which a summary is found."""
    return f"{TAG}:{key}"


def is_summary(tags: Iterable[str]) -> bool:
    """True if these are the tags of a summary."""
    return any(tag.startswith(f"{TAG}:") for tag in tags)
