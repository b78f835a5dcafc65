"""Summaries by a language model: its prompt, and how its answer is used.

The words are those of the fifth design (M9, "Prompt Template"). Notes are data, one to a line, so that no note can
imitate another one or an instruction.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from runtime.memory.item import Item, rfc3339
from runtime.memory.sentences import sentences
from runtime.memory.summary.extractive import CUT
from runtime.models.calls.call import CallOwner
from runtime.models.client import ModelClient

MOST_CHARACTERS: Final = 20_000
"""Maximum characters of all notes in a prompt: some 5,000 to 7,000 tokens of English."""

_SYSTEM: Final = (
    "You summarize developer activity into concise, factual bullet points. Prefer neutral tone. Avoid speculation. "
    "Include dates if present. Return at most {max_words} words. Output a single paragraph."
)
_USER: Final = "Summarize the following episodic notes for project '{project_id}' between {start} and {end}."
_TOKENS_A_WORD: Final = 3
_TOKENS_BESIDES: Final = 64
_CHARACTERS_A_WORD: Final = 40
# All characters that some program takes for a line end or does not show.
_NOT_SHOWN: Final = re.compile("[\\s\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+")


class ModelSummary(NamedTuple):
    """A summary, and the row and model that wrote it, as `ollama/llama3.1:8b`."""

    text: str
    author: str


async def write(
    model: ModelClient,
    items: Sequence[Item],
    *,
    project_id: str,
    start: datetime,
    end: datetime,
    max_words: int,
    owner: CallOwner,
) -> ModelSummary:
    """Return the model's summary of the items, `max_words` words at most; empty if it answers nothing.

    Raises ModelUnavailable, ModelRefused.
    """
    prompt = prompt_of(items, project_id=project_id, start=start, end=end)
    tokens = max_words * _TOKENS_A_WORD + _TOKENS_BESIDES
    system = _SYSTEM.format(max_words=max_words)
    reply = await model.generate(prompt, system=system, max_tokens=tokens, owner=owner, purpose="summary")
    return ModelSummary(limit_words(reply.text, max_words), reply.model)


def prompt_of(items: Sequence[Item], *, project_id: str, start: datetime, end: datetime) -> str:
    """Return the prompt: the design's header, and each item's text after its date.

    If all of them have more than `MOST_CHARACTERS`, the longest are cut to the same length.
    """
    texts = [in_line(item.text) for item in items]
    longest = _longest([len(text) for text in texts], MOST_CHARACTERS)
    header = _USER.format(project_id=in_line(project_id), start=rfc3339(start), end=rfc3339(end))
    notes = [f"- {item.timestamp:%Y-%m-%d} {_shorten(text, longest)}" for item, text in zip(items, texts, strict=True)]
    return "\n".join([header, "", *notes])


def limit_words(text: str, max_words: int) -> str:
    """Return the first `max_words` words, up to the end of a sentence if one ends in their second half, else with
    `…`."""
    words = text.split()
    whole = " ".join(words)
    longest = max_words * _CHARACTERS_A_WORD
    if len(words) <= max_words and len(whole) <= longest:
        return text.strip()
    kept = " ".join(words[:max_words])[: longest - 1]
    # Decided by the following text: an apparent end of a sentence may be part of a number.
    end = max((stop for _, stop in sentences(whole, 0, len(whole)) if stop <= len(kept)), default=0)
    return kept[:end] if end >= len(kept) // 2 else kept + CUT


def in_line(text: str) -> str:
    """Return the text in one line, without invisible characters."""
    return _NOT_SHOWN.sub(" ", text).strip()


def _shorten(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}{CUT}"


def _longest(lengths: Sequence[int], room: int) -> int:
    """Return the length to which texts are cut so that all of them have `room` characters at most."""
    left = room
    for number, length in enumerate(sorted(lengths)):
        share = left // (len(lengths) - number)
        if length > share:
            return max(1, share)
        left -= length
    return max(lengths, default=1)
