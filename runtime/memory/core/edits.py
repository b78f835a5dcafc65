"""Edits of a block's text. Each returns the new text, or raises UsageError with the place in the text."""

from __future__ import annotations

import difflib
import heapq
from collections import Counter
from collections.abc import Callable
from typing import Final

from runtime.errors import UsageError

END: Final = -1
"""Number of the line after the last one, for `insert`."""

_LONGEST_PASSAGE: Final = 200
"""Characters of a line that are compared with the text that was not found, and that an error shows."""
_CANDIDATES: Final = 5
_PLACES: Final = 5
"""Places of a text that an error names."""
_LEAST_SIMILARITY: Final = 0.4
"""Similarity from which a line is shown as the nearest one."""


class TextAbsent(UsageError):  # noqa: N818 - errors are named for what is the case
    """The text to replace is not in the block."""


class TextAmbiguous(UsageError):  # noqa: N818
    """The text to replace is in the block more than once."""


def replace(value: str, old: str, new: str) -> str:
    """Replace the only occurrence of `old`. Raises TextAbsent with the nearest line, and TextAmbiguous with the
    lines."""
    if not old:
        raise UsageError("`old` is empty", hint="to add text, use memory_append or memory_insert")
    places = _places(value, old)
    if not places:
        raise TextAbsent("the block does not contain this text", hint=_nearest_line_hint(value, old))
    if len(places) > 1:
        raise TextAmbiguous(
            f"the block contains this text {_times(places)}: in {_lines(value, places)}",
            hint="give more of the text around it",
        )
    return f"{value[: places[0]]}{new}{value[places[0] + len(old) :]}"


def append(value: str, content: str) -> str:
    """Add `content` as new lines at the end."""
    if not content.strip():
        raise UsageError("the text is empty", hint="there is nothing to add")
    return f"{value}{_break(value)}{content}"


def insert(value: str, content: str, line: int) -> str:
    """Insert `content` as lines of its own, the first of which becomes line number `line`, from 1; `END`: after the
    last one."""
    if line == END:
        return append(value, content)
    lines = value.split("\n") if value else []
    if not 0 <= line <= len(lines) + 1:
        raise UsageError(
            f"the block has {len(lines)} lines", hint=f"`line` is 1 to {len(lines) + 1}, or {END} for the end"
        )
    if not content.strip():
        raise UsageError("the text is empty", hint="there is nothing to insert")
    at = max(0, line - 1)
    return "\n".join([*lines[:at], content.removesuffix("\n"), *lines[at:]])


def with_source(value: str, edit: Callable[[str], str], source: str) -> str:
    """Return the edited text, with `source` at the end of each line that was not in it before."""
    kept = Counter(value.split("\n"))
    mark = f" [{source}]"
    lines = []
    for line in edit(value).split("\n"):
        if kept[line]:
            kept[line] -= 1
        elif line.strip() and not line.endswith(mark):
            line += mark  # noqa: PLW2901
        lines.append(line)
    return "\n".join(lines)


def _break(value: str) -> str:
    return "" if not value or value.endswith("\n") else "\n"


def _places(value: str, old: str) -> list[int]:
    """Return where `old` begins, overlapping occurrences included; one more than an error names."""
    found: list[int] = []
    at = value.find(old)
    while at >= 0 and len(found) <= _PLACES:
        found.append(at)
        at = value.find(old, at + 1)
    return found


def _times(places: list[int]) -> str:
    return f"{len(places)} times" if len(places) <= _PLACES else f"more than {_PLACES} times"


def _lines(value: str, places: list[int]) -> str:
    numbers = list(dict.fromkeys(value.count("\n", 0, at) + 1 for at in places[:_PLACES]))
    if len(numbers) == 1:
        return f"line {numbers[0]}"
    return f"lines {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def _nearest_line_hint(value: str, old: str) -> str:
    """Return a hint with the line that is most like the first line of `old`."""
    if not value:
        return "the block is empty"
    wanted = next((line.strip() for line in old.split("\n") if line.strip()), "")
    found = _nearest(value.split("\n"), wanted)
    if found is None:
        return "no line of it is similar; read the block again"
    number, passage = found
    differs = "it differs in white space or case only; " if _plain(old) in _plain(value) else ""
    return f"{differs}the nearest text is in line {number}: {passage}"


def _nearest(lines: list[str], wanted: str) -> tuple[int, str] | None:
    """Return the number of the line most like `wanted`, and the passage of it; None if none is similar."""
    words = set(wanted.casefold().split())

    def share_of_words(line: str) -> float:
        return len(words.intersection(line.casefold().split())) / max(1, len(words))

    # Comparing by letters takes long, so only the lines with the most common words are compared.
    candidates = heapq.nlargest(_CANDIDATES, enumerate(lines, 1), key=lambda numbered: share_of_words(numbered[1]))
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted[:_LONGEST_PASSAGE].casefold())
    best, best_score = None, _LEAST_SIMILARITY
    for number, line in candidates:
        passage = _passage(line, words)
        matcher.set_seq1(passage.casefold())
        score = max(matcher.ratio(), share_of_words(line))
        if score > best_score or (best is None and wanted.casefold() in line.casefold()):
            best, best_score = (number, passage), score
    return best


def _passage(line: str, words: set[str]) -> str:
    """Return the line, or of a long one the passage around the longest of the words."""
    line = line.strip()
    if len(line) <= _LONGEST_PASSAGE:
        return line
    folded = line.casefold()
    at = folded.find(max((word for word in words if word in folded), key=len, default=""))
    begin = max(0, min(at - _LONGEST_PASSAGE // 4, len(line) - _LONGEST_PASSAGE))
    end = begin + _LONGEST_PASSAGE
    return f"{'…' if begin else ''}{line[begin:end]}{'…' if end < len(line) else ''}"


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
