"""Tables in text: as wide as they are where nothing is in the way, else narrower, else a block of lines for each row.

What is narrower has smaller gaps, then cells over several lines. No word is broken: names and ids are
there to be copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest

import click

GAPS = ("   ", "  ", " ")
"""What stands between columns: the first that fits."""

FOLDED = 200
"""Rows that are folded at most: nobody reads a table of thousands of rows whose rows are several lines."""

Row = tuple[str, ...]
Style = Callable[[str], str]
"""The colour of a cell's text; empty for none."""


def print_rows(columns: Sequence[str], rows: Sequence[Row], *, width: int | None, style: Style) -> None:
    """Print `rows`, one cell for each of `columns`. `width`: the terminal's columns; None when there is no terminal."""
    cells = [tuple(map(_one_line, row)) for row in rows]
    sizes = [max(map(cell_width, column)) for column in zip(columns, *cells, strict=True)]
    gap = next((gap for gap in GAPS if width is None or _total(sizes, gap) <= width), None)
    if gap is not None:
        lines = _plain(columns, cells, sizes, gap, style)
    else:
        assert width is not None
        words = [max(map(_longest_word, column)) for column in zip(columns, *cells, strict=True)]
        room = width - _total(words, GAPS[-1])
        if room >= 0 and len(rows) <= FOLDED:
            lines = _folded(columns, cells, _spread(words, sizes, room), style)
        else:
            lines = _blocks(columns, cells, style)
    # One write: thousands of lines would be thousands of writes.
    return click.echo("\n".join(lines))


def _total(sizes: Sequence[int], gap: str) -> int:
    return sum(sizes) + len(gap) * (len(sizes) - 1)


def _longest_word(text: str) -> int:
    return max(map(cell_width, text.split()), default=0)


def cell_width(text: str) -> int:
    """The columns that `text` takes on a terminal."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _one_line(text: str) -> str:
    return text if text.isprintable() else " ".join(text.split())


def _plain(columns: Sequence[str], cells: Sequence[Row], sizes: Sequence[int], gap: str, style: Style) -> Iterator[str]:
    yield _line([click.style(name, bold=True) for name in columns], columns, sizes, gap)
    yield "─" * _total(sizes, gap)
    for row in cells:
        yield _line([_coloured(cell, style) for cell in row], row, sizes, gap)


def _line(shown: Sequence[str], plain: Sequence[str], sizes: Sequence[int], gap: str) -> str:
    padded = [text + " " * (size - cell_width(bare)) for text, bare, size in zip(shown, plain, sizes, strict=True)]
    return gap.join(padded).rstrip()


def _blocks(columns: Sequence[str], cells: Sequence[Row], style: Style) -> Iterator[str]:
    """Each row's cells below one another, those that say nothing left out."""
    size = max(map(len, columns))
    for place, row in enumerate(cells):
        if place:
            yield ""
        for name, cell in zip(columns, row, strict=True):
            if cell not in {"", "-"}:
                yield f"{click.style(name.ljust(size), bold=True)}  {_coloured(cell, style)}"


def _folded(columns: Sequence[str], cells: Sequence[Row], sizes: Sequence[int], style: Style) -> Iterator[str]:
    """Cells over as many lines as they take in columns of these sizes."""
    for line in _wrapped(columns, sizes):
        yield _line([click.style(part, bold=True) for part in line], line, sizes, GAPS[-1])
    yield "─" * _total(sizes, GAPS[-1])
    for row in cells:
        colours = [style(cell) or None for cell in row]
        for line in _wrapped(row, sizes):
            shown = [click.style(part, fg=fg) if fg else part for part, fg in zip(line, colours, strict=True)]
            yield _line(shown, line, sizes, GAPS[-1])


def _wrapped(row: Sequence[str], sizes: Sequence[int]) -> Iterator[tuple[str, ...]]:
    return zip_longest(*(_wrap(cell, size) for cell, size in zip(row, sizes, strict=True)), fillvalue="")


def _wrap(cell: str, size: int) -> list[str]:
    """The words of `cell` on lines of up to `size` columns; all of them are shorter than that."""
    lines = [""]
    for word in cell.split():
        longer = f"{lines[-1]} {word}".lstrip()
        if cell_width(longer) <= size:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _spread(least: Sequence[int], sizes: Sequence[int], room: int) -> list[int]:
    """`least`, and of the `room` that is left as much for each as it has use for: who needs little gets all of it."""
    given = list(least)
    wanting = sorted(range(len(sizes)), key=lambda column: sizes[column] - least[column])
    for place, column in enumerate(wanting):
        more = min(sizes[column] - least[column], room // (len(wanting) - place))
        given[column] += more
        room -= more
    return given


def _coloured(cell: str, style: Style) -> str:
    return click.style(cell, fg=colour) if (colour := style(cell)) else cell
