"""A question to a memory, and its interpretation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from math import isfinite

from runtime.errors import UsageError
from runtime.search.dates import TimeSpan, spans
from runtime.search.entry import EntryFilter
from runtime.search.stop_words import STOP_WORDS

EVERYTHING = EntryFilter()
VECTOR_WEIGHT = 0.7
KEYWORD_WEIGHT = 0.3
USER = "user"
ROLES = frozenset({USER, "assistant"})
"""Authors that are no names: whoever asks, and the agent that answers (the roles of a chat with a model)."""
RECOMMENDED_THRESHOLD = 0.55
"""The recommended least relevance, which unrelated items do not reach: see docs/search.md for its cost."""
LONGEST = 2_000
"""Maximum characters of a question that are read."""

_LONGEST_NAME = 6  # words
_WORD = re.compile(r"[^\W_]+")
_FIRST_PERSON = re.compile(r"\b(?:i|me|my|mine|myself)\b", re.IGNORECASE)
_OTHER_PERSON = re.compile(r'"[^"]*"|“[^”]*”|\b[Ii][./]\w|\b(?:War|Part|Phase|Type|Volume|Chapter) I\b')
"""Quotations, abbreviations ("I/O", "i.e.") and Roman numerals, in which nobody speaks of himself."""
_POSSESSIVE = re.compile(r"['’]s\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A search: its words, how many hits are wanted, of which entries, and how meaning weighs against words.

    `now` is aware: "last week" in the text is relative to it. Only the ratio of the weights counts; None: the weight
    that the searched memory declares. `threshold`: the least relevance of a hit, 0 to 1. Raises UsageError for a blank
    text, for weights that are not finite, negative or both zero, for a limit below one, and for a threshold outside 0
    to 1.
    """

    text: str
    now: datetime
    limit: int = 10
    wanted: EntryFilter = EVERYTHING
    vector_weight: float | None = None
    keyword_weight: float | None = None
    threshold: float = 0.0

    def __post_init__(self) -> None:
        """Raise UsageError for an invalid question."""
        if not self.text.strip():
            raise UsageError("there is nothing to search for", hint="give one or more words")
        if self.limit < 1:
            raise UsageError(f"the limit of {self.limit} hits is invalid", hint="give a limit of one or more")
        if not 0 <= self.threshold <= 1:
            raise UsageError(f"a threshold of {self.threshold:g} is invalid", hint="give a relevance, from 0 to 1")
        vector, keyword = self._weights
        if not (isfinite(vector) and isfinite(keyword)) or min(vector, keyword) < 0 or not vector + keyword > 0:
            raise UsageError(
                f"with weights of {vector:g} for vectors and {keyword:g} for keywords nothing can be found",
                hint="give both a weight of zero or more, and one of them more than zero",
            )

    @property
    def shares(self) -> tuple[float, float]:
        """Return the weights of vectors and of keywords, scaled to add up to 1."""
        vector, keyword = self._weights
        return vector / (vector + keyword), keyword / (vector + keyword)

    def with_weights(self, vector: float, keyword: float) -> Question:
        """Return the question with these weights where it has none. Raises UsageError, as the constructor does."""
        return replace(
            self,
            vector_weight=vector if self.vector_weight is None else self.vector_weight,
            keyword_weight=keyword if self.keyword_weight is None else self.keyword_weight,
        )

    @property
    def _weights(self) -> tuple[float, float]:
        vector, keyword = self.vector_weight, self.keyword_weight
        return VECTOR_WEIGHT if vector is None else vector, KEYWORD_WEIGHT if keyword is None else keyword


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """The interpretation of a question.

    `words`: to search for, in order, each once. `meaning`: the text to embed. `author`: the one author whose entries
    it asks for, in the spelling of `normalized_name`: the one that it names, or the role USER if it speaks of whoever
    asks ("my", "I") and there is that author. `spans`: the times that it mentions. `only_stop_words`: it has no other
    words, so they are among `words`. `cut`: it is longer than what is read.
    """

    words: tuple[str, ...]
    meaning: str
    author: str | None
    spans: tuple[TimeSpan, ...]
    only_stop_words: bool
    cut: bool


def parse_question(question: Question, authors: Sequence[str]) -> ParsedQuestion:
    """Interpret a question to a memory with these authors.

    Names of authors say whose entries are wanted, not what their texts contain: as words and in the embedded text they
    would find entries that speak *to* that person. They are left out there, and count only if exactly one is named.
    """
    text = question.text[:LONGEST]
    named = list(_author_mentions(text, _names(tuple(authors))))
    meaning = _without_ranges(text, [place for _, place in named])
    everything = tuple(dict.fromkeys(_WORD.findall(text.lower())))
    words = tuple(word for word in dict.fromkeys(_WORD.findall(meaning.lower())) if word not in STOP_WORDS)
    if not words:
        # Names alone are searched for as words, and so are questions that consist only of stop words.
        meaning = text
        words = tuple(word for word in everything if word not in STOP_WORDS)
    who = {author for author, _ in named}
    if not who and _FIRST_PERSON.search(_OTHER_PERSON.sub(" ", text)) and USER in map(normalized_name, authors):
        who.add(USER)
    return ParsedQuestion(
        words=words or everything,
        meaning=meaning,
        author=who.pop() if len(who) == 1 else None,
        spans=spans(text, question.now),
        only_stop_words=not words,
        cut=len(question.text) > LONGEST,
    )


@lru_cache(maxsize=16_384)
def normalized_name(author: str) -> str:
    """Return an author's name as names are compared: words in lower case."""
    return " ".join(_WORD.findall(author.lower()))


@lru_cache(maxsize=64)
def _names(authors: tuple[str, ...]) -> Mapping[tuple[str, ...], str | None]:
    """Return the names of authors: the whole name, or the first name if it is unique (else None)."""
    folds = {normalized_name(author) for author in authors} - ROLES
    names = {author: tuple(author.split()) for author in sorted(folds)}
    whole = {words: name for name, words in names.items() if len(words) <= _LONGEST_NAME}
    first: dict[tuple[str, ...], str | None] = {}
    for name, author in whole.items():
        if len(name) > 1 and name[0].isalpha() and len(name[0]) > 1:
            first[name[:1]] = None if name[:1] in first else author
    return {**first, **whole}


def _author_mentions(text: str, names: Mapping[tuple[str, ...], str | None]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the authors named in a text, with their positions; a possessive's ending is part of the name."""
    longest = max(map(len, names), default=0)
    words = list(_WORD.finditer(text))
    lower = [word.group().lower() for word in words]
    at = 0
    while at < len(words):
        for size in range(min(longest, len(words) - at), 0, -1):
            author = names.get(tuple(lower[at : at + size]))
            if author and not (size == 1 and lower[at] in STOP_WORDS and not _is_capitalized(words, at)):
                end = words[at + size - 1].end()
                possessive = _POSSESSIVE.match(text, end)
                yield author, (words[at].start(), possessive.end() if possessive else end)
                at += size
                break
        else:
            at += 1


def _is_capitalized(words: Sequence[re.Match[str]], at: int) -> bool:
    """True if a stop word is written as a name: "ask Will", but not "Will it rain" at the beginning."""
    return at > 0 and words[at].group()[0].isupper()


def _without_ranges(text: str, places: Sequence[tuple[int, int]]) -> str:
    """Return the text without these ranges."""
    kept, at = [], 0
    for start, end in places:
        kept.append(text[at:start])
        at = end
    return " ".join(" ".join((*kept, text[at:])).split())
