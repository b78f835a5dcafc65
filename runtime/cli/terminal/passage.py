"""The passage of a text that matches a query, for a terminal."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Collection, Iterator, Sequence, Set

from runtime.cli.terminal.screen import StyledText, echo, joined, printable, style
from runtime.search.stop_words import STOP_WORDS

_LINES = 6
"""Number of lines shown."""
_WIDTH = 100
_LOOKED_AT = 20_000
"""Characters of a text that are searched for the query's words."""
_WORD = re.compile(r"(\w+)")


def print_passage(text: str, query: str) -> None:
    """Print the lines that contain the query's words, highlighted, then an empty line."""
    wanted = _words(query)
    for line in _matching_lines(printable(text[:_LOOKED_AT]), wanted):
        echo("    ", _highlighted(line, wanted))
    echo()


def _matching_lines(text: str, wanted: Collection[str]) -> Iterator[str]:
    """Yield the text in lines that fit; of a long text those with most words of the query."""
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
    """Return the lines with most words: one range, or two if a second one has words that the first lacks."""
    said = [{each for word in _WORD.findall(line) for each in wanted if _is_match(word, (each,))} for line in lines]
    whole = _densest(said, _LINES)
    missing = set().union(*said) - _words_within(said, whole)
    if not missing:
        return [whole]
    first = _densest(said, _LINES // 2)
    missing = set().union(*said) - _words_within(said, first)
    second = _densest([words & missing for words in said], _LINES // 2)
    first, second = sorted((first, second), key=lambda each: each.start)
    if second.start <= first.stop:
        return [range(first.start, second.stop)]
    return [first, second]


def _words_within(said: Sequence[Set[str]], lines: range) -> set[str]:
    return set().union(*said[lines.start : lines.stop])


def _densest(said: Sequence[Set[str]], size: int) -> range:
    """Return the range of `size` lines with most words. `said`: the words of each line.

    Of equal ranges the first, with one more line before its words if possible.
    """
    counts = [len(_words_within(said, range(at, at + size))) for at in range(max(1, len(said)))]
    first = last = counts.index(max(counts))
    while any(counts) and last + 1 < len(counts) and counts[last + 1] == counts[first]:
        last += 1
    begin = min(max(first, last - 1), max(0, len(said) - size))
    return range(begin, min(begin + size, len(said)))


def _words(query: str) -> Collection[str]:
    """Return the words of the query without stop words, unless it has no others."""
    words = {word.casefold() for word in _WORD.findall(query)}
    return words - STOP_WORDS or words


def _highlighted(line: str, wanted: Collection[str]) -> StyledText:
    """Return the line with the query's words, and words with the same beginning, highlighted."""

    parts = _WORD.split(line)
    return joined(style(part, fg="green", bold=True) if _is_match(part, wanted) else part for part in parts)


def _is_match(word: str, wanted: Collection[str]) -> bool:
    """True if `word` is one of the words, or another form of one; the index compares stems too."""
    word = word.casefold()
    return word in wanted or any(
        len(each) > 3 and len(word) > 3 and (word.startswith(each) or each.startswith(word)) for each in wanted
    )
