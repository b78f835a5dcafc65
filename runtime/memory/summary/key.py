"""What makes a summary the same one (the fifth design, M9, "Idempotency key")."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from runtime.memory.item import rfc3339

TAG: Final = "summary"
"""The tag that every summary has."""


def summary_key(project_id: str, start: datetime, end: datetime, source_memory_ids: Iterable[str]) -> str:
    """sha256, in lower-case hex, of project, start and end (RFC 3339 in UTC) and the ids, joined by commas in the order
    of time. How the summary is made is no part of it, nor what the items say: others compute this key from the design's
    formula. Whether a summary is still the one of its items' texts is told by `content_of`."""
    told = "".join((project_id, rfc3339(start), rfc3339(end), ",".join(source_memory_ids)))
    return hashlib.sha256(told.encode("utf-8", "replace")).hexdigest()


def content_of(chunk_hashes: Iterable[str], max_words: int) -> str:
    """What a summary was made of, as the `task` of its provenance says it: equal as long as the items say the same, and
    as many words are wanted."""
    told = hashlib.sha256("\n".join(chunk_hashes).encode()).hexdigest()[:16]
    return f"summarize in {max_words} words, items {told}"


def key_tag(key: str) -> str:
    """The tag by which a summary is found again."""
    return f"{TAG}:{key}"


def is_summary(tags: Iterable[str]) -> bool:
    """Whether something with these tags is a summary."""
    return any(tag.startswith(f"{TAG}:") for tag in tags)
