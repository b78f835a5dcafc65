"""Text tables: at full width if they fit the terminal, else narrower, else a block of lines for each row.

A narrower table has smaller gaps, then cells of several lines. Words are not broken, so that names and ids can be
copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest

import click

GAPS = ("   ", "  ", " ")
"""Gaps between columns: the first that fits is used."""

FOLDED = 200
"""Maximum number of rows with cells of several lines; longer tables would be unreadable."""

TableRow = tuple[str, ...]
Style = Callable[[str], str]
"""Returns the colour of a cell's text; empty for none."""


def print_rows(columns: Sequence[str], rows: Sequence[TableRow], *, width: int | None, style: Style) -> None:
    """Print `rows`, one cell for each of `columns`. `width`: the terminal's columns; None if there is no terminal."""
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
    # One write instead of one per line.
    return click.echo("\n".join(lines))


def _total(sizes: Sequence[int], gap: str) -> int:
    return sum(sizes) + len(gap) * (len(sizes) - 1)


def _longest_word(text: str) -> int:
    return max(map(cell_width, text.split()), default=0)


def cell_width(text: str) -> int:
    """Return the number of terminal columns of `text`."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _one_line(text: str) -> str:
    return text if text.isprintable() else " ".join(text.split())


def _plain(
    columns: Sequence[str], cells: Sequence[TableRow], sizes: Sequence[int], gap: str, style: Style
) -> Iterator[str]:
    yield _line([click.style(name, bold=True) for name in columns], columns, sizes, gap)
    yield "─" * _total(sizes, gap)
    for row in cells:
        yield _line([_coloured(cell, style) for cell in row], row, sizes, gap)


def _line(shown: Sequence[str], plain: Sequence[str], sizes: Sequence[int], gap: str) -> str:
    padded = [text + " " * (size - cell_width(bare)) for text, bare, size in zip(shown, plain, sizes, strict=True)]
    return gap.join(padded).rstrip()


def _blocks(columns: Sequence[str], cells: Sequence[TableRow], style: Style) -> Iterator[str]:
    """Yield each row as lines of name and cell, without empty cells."""
    size = max(map(len, columns))
    for place, row in enumerate(cells):
        if place:
            yield ""
        for name, cell in zip(columns, row, strict=True):
            if cell not in {"", "-"}:
                yield f"{click.style(name.ljust(size), bold=True)}  {_coloured(cell, style)}"


def _folded(columns: Sequence[str], cells: Sequence[TableRow], sizes: Sequence[int], style: Style) -> Iterator[str]:
    """Yield rows with cells of several lines in columns of these sizes."""
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
    """Return the words of `cell` on lines of at most `size` columns; every word is shorter."""
    lines = [""]
    for word in cell.split():
        longer = f"{lines[-1]} {word}".lstrip()
        if cell_width(longer) <= size:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _spread(least: Sequence[int], sizes: Sequence[int], room: int) -> list[int]:
    """Return `least` plus a share of `room` for each column: columns that need little get all they need."""
    given = list(least)
    wanting = sorted(range(len(sizes)), key=lambda column: sizes[column] - least[column])
    for place, column in enumerate(wanting):
        more = min(sizes[column] - least[column], room // (len(wanting) - place))
        given[column] += more
        room -= more
    return given


def _coloured(cell: str, style: Style) -> str:
    return click.style(cell, fg=colour) if (colour := style(cell)) else cell
