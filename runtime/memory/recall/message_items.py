"""Makes items of messages and summaries: one for each chunk of a text."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple
from uuid import NAMESPACE_URL, uuid5

import structlog

from runtime.clock import utc
from runtime.memory.chunking import chunks
from runtime.memory.item import RESERVED, Item, Provenance
from runtime.memory.redaction.redact import redact
from runtime.memory.store import redacted_subject
from runtime.search.question import USER
from runtime.threads.content import ToolOutputPart
from runtime.threads.messages import Message
from runtime.threads.summaries import Summary
from runtime.token_counter import estimate

log = structlog.get_logger("symbiont.memory")

SUMMARY: Final = "summary"
"""The tag of the items of summaries."""
TOKENS: Final = 256
"""Maximum number of tokens of an item: as many as the embedding `local` reads."""
LONGEST_OUTPUT: Final = 8_000
"""Maximum characters of a tool's output that can be found; of a longer one the beginning and the end."""

_KINDS: Final = frozenset({"message", "tool_output"})
_MESSAGE: Final = f"{RESERVED}message/"
_SUMMARY: Final = f"{RESERVED}thread-summary/"
_CHARACTERS: Final = 4 * TOKENS
_NAMESPACE: Final = uuid5(NAMESPACE_URL, "urn:symbiont:recall")


class MessagePlace(NamedTuple):
    """Location of a message, or of a summary: then `position` is None, and `summary` is its id."""

    thread_id: str
    position: int | None
    summary: str | None = None


def items_of(
    agent: str,
    found: Sequence[Message | Summary],
    subjects: Mapping[str, str | None],
    quoting: Collection[str] = frozenset(),
) -> list[Item]:
    """Return the items of an agent's messages and summaries, in order. Secrets in their texts are redacted.

    `subjects`: of the threads by id, None for one without; what is of another thread has no items. `quoting`: names of
    tools whose outputs have none, because they repeat what is found where it is stored.
    """
    return [
        item
        for each in found
        if each.thread_id in subjects and not _quotes(each, quoting)
        for item in _items(agent, each, subjects)
    ]


def place_of(item: Item) -> MessagePlace:
    """Return the message or summary that an item is of."""
    source = item.source_uri or ""
    if source.startswith(_SUMMARY):
        thread_id, _, summary = source.removeprefix(_SUMMARY).partition("/")
        return MessagePlace(thread_id, None, summary)
    thread_id, _, position = source.removeprefix(_MESSAGE).rpartition("/")
    return MessagePlace(thread_id, int(position))


def _quotes(source: Message | Summary, quoting: Collection[str]) -> bool:
    if isinstance(source, Summary):
        return False
    return any(isinstance(part, ToolOutputPart) and part.name in quoting for part in source.parts)


def _items(agent: str, source: Message | Summary, subjects: Mapping[str, str | None]) -> Iterator[Item]:
    text, tags, author, subject = source.text, tuple[str, ...](), None, subjects[source.thread_id]
    if isinstance(source, Summary):
        uri, tags = f"{_SUMMARY}{source.thread_id}/{source.id}", (SUMMARY,)
    elif source.kind in _KINDS:
        uri = f"{_MESSAGE}{source.thread_id}/{source.position}"
        author = {"assistant": agent, "user": USER}.get(source.role)
        if source.kind == "tool_output" and len(text) > LONGEST_OUTPUT:
            text = f"{text[: LONGEST_OUTPUT // 2]}\n\n…\n\n{text[-LONGEST_OUTPUT // 2 :]}"
    else:
        return
    try:
        text, subject = redact(text), None if subject is None else redacted_subject(subject)
    except Exception as error:
        # It stays in its thread.
        log.warning("message_not_indexed", thread=source.thread_id, reason=type(error).__name__)
        return
    for number, chunk in enumerate(_chunks(text)):
        yield Item(
            memory_id=str(uuid5(_NAMESPACE, f"{source.id}/{number}")),
            project_id=source.thread_id,
            agent_id=agent,
            user_id=source.user_id,
            memory_type="episodic",
            timestamp=utc(source.created_at / 1000),
            source_uri=uri,
            tags=tags,
            text=chunk,
            provenance=Provenance(author=author, session_id=source.thread_id),
            subject=subject,
        )


def _chunks(text: str, size: int = _CHARACTERS) -> Iterator[str]:
    """Yield the chunks of a text; those of a text with more tokens than characters of English are shorter."""
    for chunk in chunks(text, size):
        if size > TOKENS and estimate(chunk) > TOKENS:
            yield from _chunks(chunk, size // 2)
        else:
            yield chunk
