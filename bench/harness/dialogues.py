"""Dialogues with questions whose answers are known.

A file has one conversation per line, as JSON: `conv`, `items` (`id`, `session`, `iso`, `speaker`, `text`, `caption`)
and `queries` (`q`, `cat`, `evidence`: the ids of the items that answer it). Optional: `speaker` and `caption`, `source`
and `licence` of the conversation, and `kind` of a query, its category in the source. No such file is part of this
project.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path

from pydantic import BaseModel, ValidationError

from runtime.errors import UsageError

ADVERSARIAL = "adversarial"
"""Questions that ask one speaker for something that the other one said."""
TOGETHER = ("single_hop", "multi_hop", "temporal", "open_domain")
"""The categories that are averaged together."""


class Turn(BaseModel):
    """A statement of a speaker, or a passage without one; `caption` describes a picture sent with it."""

    id: str
    session: int
    iso: datetime
    speaker: str = ""
    text: str
    caption: str | None = None

    @property
    def said(self) -> str:
        """The text to remember."""
        return f"{self.text} {self.caption}" if self.caption else self.text

    @property
    def script(self) -> str:
        """The text with its speaker, if it has one."""
        return f"{self.speaker}: {self.said}" if self.speaker else self.said

    @property
    def time(self) -> datetime:
        """The time, in UTC."""
        return self.iso.replace(tzinfo=UTC) if self.iso.tzinfo is None else self.iso.astimezone(UTC)


class Query(BaseModel):
    """A question and the ids of the turns that answer it."""

    q: str
    cat: str
    kind: str | None = None
    evidence: list[str]


class Conversation(BaseModel):
    """Turns in order, and questions about them."""

    conv: str
    source: str | None = None
    licence: str | None = None
    items: list[Turn]
    queries: list[Query]

    @cached_property
    def now(self) -> datetime:
        """The time of the questions: a day after the last turn."""
        return max(turn.time for turn in self.items) + timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Corpus:
    """All conversations of one source; `licences` are those that their lines name."""

    source: str
    licences: tuple[str, ...]
    conversations: tuple[Conversation, ...]

    @property
    def described(self) -> str:
        """The source and its licence, for a caption."""
        return f"{self.source}, licence: {' and '.join(self.licences) or 'not given'}"


def corpora(files: Sequence[Path]) -> list[Corpus]:
    """Return the conversations of these files by source. Those without one are a corpus with the name of their file.

    Raises UsageError as `read` does, and if a source has two conversations of the same name.
    """
    found: dict[str, list[Conversation]] = {}
    for file in files:
        for conversation in read(file):
            source = conversation.source or f"{file.name} (source not given)"
            same = found.setdefault(source, [])
            if any(conversation.conv.lower() == other.conv.lower() for other in same):
                raise UsageError(
                    f"{file}: a conversation {conversation.conv} of {source} was read before",
                    hint="give each file once, and each conversation its own `conv`",
                )
            same.append(conversation)
    return [
        Corpus(source, tuple(dict.fromkeys(each.licence for each in those if each.licence)), tuple(those))
        for source, those in found.items()
    ]


def read(file: Path) -> list[Conversation]:
    """Return the conversations of a file. Raises UsageError, naming the line, if it does not have the form above."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(
            f"{file} cannot be read: {reason}", hint="use --data FILE.jsonl with a file of dialogues"
        ) from None
    found = [_conversation(file, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise UsageError(f"{file} has no dialogues", hint="a file has one per line, as JSON")
    return found


def _conversation(file: Path, number: int, line: str) -> Conversation:
    try:
        conversation = Conversation.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(
            f"{file}:{number} is not a dialogue: {where}: {first['msg']}"
            if where
            else f"{file}:{number} is not a dialogue: {first['msg']}"
        ) from None
    if not conversation.items:
        raise UsageError(f"{file}:{number} is not a dialogue: it has no items")
    return conversation
