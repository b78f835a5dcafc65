"""The points of an index in Qdrant: their ids and payloads, and filters."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from runtime.search.entry import ALL_SUBJECTS, EntryFilter, IndexEntry
from runtime.search.index.embedded.bm25 import ABOUT, CONTEXT, K1, TEXT, B
from runtime.search.index.embedded.columns import asks
from runtime.search.index.embedded.schema import EPOCH, microseconds

if TYPE_CHECKING:
    from qdrant_client import models

NEAREST: Final = "meaning"
WORDS: Final = "words"
"""The vectors of a point: the embedding, and the words as a sparse vector."""

INDEXED: Final = {
    **dict.fromkeys(("memory_id", "project_id", "memory_type", "tags", "chunk_hash", "agent_id", "user_id"), "keyword"),
    **dict.fromkeys(("source_uri", "other_sources", "author", "subject", "replaces", "retracts"), "keyword"),
    **dict.fromkeys(("part", "neighbour_group", "embedding", "token_version"), "keyword"),
    **dict.fromkeys(("time", "terms"), "integer"),
    **dict.fromkeys(("part_name", "part_agent"), "keyword"),
}
"""The fields of a payload by which points are found, each with the kind of its payload index."""

EMBEDDED: Final = ("embedding", "tokens", "token_version")
"""The fields that the embedding adds to a payload; they stay while the text does."""
_AVERAGE = 40
"""Number of words of an average text. It is assumed: the share of a word in a text is stored with the point, when the
others are not known."""

_FIELDS: Final = {
    "id": "memory_id",
    "agent": "agent_id",
    "user": "user_id",
    "project": "project_id",
    "type": "memory_type",
    "source": "source_uri",
    "hash": "chunk_hash",
    **{name: name for name in ("text", "author", "subject", "replaces", "retracts")},
    **{name: name for name in ("order", "group", "part", "line", "rest")},
}
"""The field of a payload for each text and number of an entry."""
_LISTS: Final = ("tags", "other_sources")

Payload = Mapping[str, Any]
EMPTY: Final[Mapping[Any, Any]] = MappingProxyType({})


def key_of(name: str) -> int:
    """Return the id of the point of an entry, 1 to 2^63 - 1; collisions are improbable."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big") >> 1 or 1


def part_key(name: str) -> int:
    """Return the id of the point of a part."""
    return key_of(f"\0part\0{name}")


def part_payload(name: str, agent: str, revision: str) -> dict[str, Any]:
    """Return the payload of the point of a part, which has no vector."""
    return {"part_name": name, "part_agent": agent, "part_revision": revision}


def term(words: Sequence[str]) -> int:
    """Return the number of one word, or of two words one after another."""
    return int.from_bytes(hashlib.blake2b(" ".join(words).encode(), digest_size=4).digest(), "big")


def terms(words: Sequence[str]) -> list[int]:
    """Return the numbers of the words of a text, and of each two of them."""
    return [*(term([word]) for word in words), *map(term, itertools.pairwise(words))]


def phrase_terms(phrase: Sequence[str]) -> tuple[int, ...]:
    """Return the terms that a text with these words one after another has."""
    return (term(phrase),) if len(phrase) == 1 else tuple(map(term, itertools.pairwise(phrase)))


def shares(
    text: Sequence[str], about: Sequence[str], context: Sequence[tuple[Sequence[str], float]] = ()
) -> dict[int, float]:
    """Return BM25's part of a term's score that does not depend on other texts, for each term of a text, of its
    metadata and of its `context`: the texts of its neighbours, each with its weight, 0 to 1."""
    counts: dict[int, float] = defaultdict(float)
    for words, weight in ((text, TEXT), (about, ABOUT), *((words, CONTEXT * weight) for words, weight in context)):
        for each in terms(words) if weight else ():
            counts[each] += weight
    length = K1 * (1 - B + B * len(text) / _AVERAGE)
    return {each: (K1 + 1) * count / (count + length) for each, count in counts.items()}


def payload_of(entry: IndexEntry, embedding: Payload) -> dict[str, Any]:
    """Return the payload of an entry: the universal payload, without empty fields, and what an index needs, except the
    fields of its words and neighbours, which `neighbourhood` adds. `embedding`: the payload whose embedding is kept."""
    payload: dict[str, Any] = {
        **{field: getattr(entry, name) for name, field in _FIELDS.items()},
        **{name: list(getattr(entry, name)) or None for name in _LISTS},
        "timestamp": entry.time.isoformat().replace("+00:00", "Z"),
        "time": microseconds(entry.time),
        "neighbour_group": f"{key_of(f'{entry.agent} {entry.group}'):x}" if entry.group else None,
        "asks": asks(entry.text) or None,
        **{name: embedding.get(name) for name in EMBEDDED},
    }
    return {**_more_of(entry.rest), **{name: value for name, value in payload.items() if value is not None}}


def entry_of(payload: Payload) -> IndexEntry:
    """Return the entry of a payload."""
    fields: dict[str, Any] = {name: payload.get(field) for name, field in _FIELDS.items()}
    fields |= {name: tuple(payload.get(name, ())) for name in _LISTS}
    return IndexEntry(time=EPOCH + timedelta(microseconds=payload["time"]), **fields)


def filter_of(wanted: EntryFilter, *more: models.Condition, hidden: Sequence[int] = ()) -> models.Filter:
    """Return the filter of entries, with further conditions and without the points `hidden`."""
    from qdrant_client import models

    must: list[models.Condition] = [empty("part_name"), *more]
    names = {"agent_id": wanted.agent, "project_id": wanted.project, "memory_type": wanted.type, "user_id": wanted.user}
    must += [equal(name, value) for name, value in names.items() if value is not None]
    if wanted.source is not None:
        must.append(models.Filter(should=[equal(name, wanted.source) for name in ("source_uri", "other_sources")]))
    must += [equal("tags", tag) for tag in sorted(wanted.tags_all)]
    if wanted.tags_any:
        must.append(one_of("tags", wanted.tags_any))
    if wanted.since is not None or wanted.until is not None:
        since, until = (None if each is None else microseconds(each) for each in (wanted.since, wanted.until))
        must.append(models.FieldCondition(key="time", range=models.Range(gte=since, lt=until)))
    if wanted.subject is None:
        must.append(empty("subject"))
    elif wanted.subject is not ALL_SUBJECTS:
        must.append(equal("subject", str(wanted.subject)))
    if wanted.changes_of:
        must.append(models.Filter(should=[one_of(name, wanted.changes_of) for name in ("replaces", "retracts")]))
    return models.Filter(must=must, must_not=[among(hidden)] if hidden else None)


def equal(name: str, value: str | int) -> models.FieldCondition:
    """Return the condition that a field has this value."""
    from qdrant_client import models

    return models.FieldCondition(key=name, match=models.MatchValue(value=value))


def one_of(name: str, values: Collection[str]) -> models.FieldCondition:
    """Return the condition that a field has one of these values."""
    from qdrant_client import models

    return models.FieldCondition(key=name, match=models.MatchAny(any=sorted(values)))


def empty(name: str) -> models.IsEmptyCondition:
    """Return the condition that there is no such field."""
    from qdrant_client import models

    return models.IsEmptyCondition(is_empty=models.PayloadField(key=name))


def among(keys: Sequence[int]) -> models.HasIdCondition:
    """Return the condition that a point is one of these."""
    from qdrant_client import models

    return models.HasIdCondition(has_id=list(keys))


def without(condition: models.Condition) -> models.Filter:
    """Return the opposite of a condition."""
    from qdrant_client import models

    return models.Filter(must_not=[condition])


def hidden_keys(changes: Sequence[Payload], changed: Mapping[int, Payload]) -> list[int]:
    """Return the points of hidden entries, see `runtime.memory.succession`, from those that replace or retract others
    and from the points of these others."""

    def target(change: Payload, name: str | None) -> int:
        """Return the point of the named entry; 0 if it is missing or belongs to another agent, user or subject."""
        key = 0 if name is None else key_of(name)
        of = changed.get(key, {})
        return key if all(of.get(each) == change.get(each) for each in ("agent_id", "user_id", "subject")) else 0

    retracted = {target(change, change.get("retracts")) for change in changes}
    replaced = {
        target(change, change.get("replaces")) for change in changes if key_of(change["memory_id"]) not in retracted
    }
    retractions = {key_of(change["memory_id"]) for change in changes if "retracts" in change}
    return sorted((retracted | replaced | retractions) - {0})


def _more_of(rest: str) -> dict[str, Any]:
    """Return further fields of an item, such as `source_memory_ids`, which are stored in the entry as JSON."""
    try:
        found = json.loads(rest) if rest else None
    except ValueError:
        return {}
    item = found.get("item") if isinstance(found, dict) else None
    return item if isinstance(item, dict) else {}
