"""The passage of a text that answers a question, as a terminal shows it."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Collection, Iterator, Sequence, Set

import click

from runtime.cli.terminal.output import printable
from runtime.search.stop_words import STOP_WORDS

_LINES = 6
"""Lines of a text that are shown."""
_WIDTH = 100
_LOOKED_AT = 20_000
"""Characters of a text in which the query's words are looked for."""
_WORD = re.compile(r"\w+")


def print_passage(text: str, query: str) -> None:
    """The lines in which the query's words are, those marked, then an empty line."""
    wanted = _words(query)
    for line in _shown(printable(text[:_LOOKED_AT]), wanted):
        click.echo(f"    {_highlighted(line, wanted)}")
    click.echo()


def _shown(text: str, wanted: Collection[str]) -> Iterator[str]:
    """The text in lines that fit; of a long one those that have most words of the query among them."""
    width = min(_WIDTH, shutil.get_terminal_size().columns) - 4 if sys.stdout.isatty() else _WIDTH
    lines = [line for each in text.splitlines() for line in textwrap.wrap(each, max(20, width))]
    end = 0
    for passage in _passages(lines, wanted):
        if passage.start > end:
            yield "…"
        end = passage.stop
        yield from lines[passage.start : end]
    if end < len(lines):
        yield "…"


def _passages(lines: Sequence[str], wanted: Collection[str]) -> Sequence[range]:
    """Where the text has most of the words: in one place, or in two when one of them has not all that the text has."""
    said = [{each for word in _WORD.findall(line) for each in wanted if _alike(word, (each,))} for line in lines]
    whole = _densest(said, _LINES)
    missing = set().union(*said) - _within(said, whole)
    if not missing:
        return [whole]
    first = _densest(said, _LINES // 2)
    missing = set().union(*said) - _within(said, first)
    second = _densest([words & missing for words in said], _LINES // 2)
    first, second = sorted((first, second), key=lambda each: each.start)
    if second.start <= first.stop:
        return [range(first.start, second.stop)]
    return [first, second]


def _within(said: Sequence[Set[str]], lines: range) -> set[str]:
    return set().union(*said[lines.start : lines.stop])


def _densest(said: Sequence[Set[str]], size: int) -> range:
    """The `size` lines that have most of the words; of several the first, and of those that have the same words in the
    same lines the one with one line more before them. `said`: the words that each line has."""
    counts = [len(_within(said, range(at, at + size))) for at in range(max(1, len(said)))]
    first = last = counts.index(max(counts))
    while any(counts) and last + 1 < len(counts) and counts[last + 1] == counts[first]:
        last += 1
    begin = min(max(first, last - 1), max(0, len(said) - size))
    return range(begin, min(begin + size, len(said)))


def _words(query: str) -> Collection[str]:
    """The words of the query, without those that stand in any text."""
    words = {word.casefold() for word in _WORD.findall(query)}
    return words - STOP_WORDS or words


def _highlighted(line: str, wanted: Collection[str]) -> str:
    """The line with the words of the query, and those that begin alike, marked where a terminal shows it."""

    def marked(match: re.Match[str]) -> str:
        return click.style(match[0], fg="green", bold=True) if _alike(match[0], wanted) else match[0]

    return _WORD.sub(marked, line)


def _alike(word: str, wanted: Collection[str]) -> bool:
    """Whether it is one of the words, or another form of one: the index goes by stems too."""
    word = word.casefold()
    return word in wanted or any(
        len(each) > 3 and len(word) > 3 and (word.startswith(each) or each.startswith(word)) for each in wanted
    )
