"""Text tables: at full width if they fit the terminal, else narrower, in the form with the fewest lines.

A narrower table has smaller gaps; then cells of several lines, with the first column, such as an id, beside or above
the others; or it is a block of lines for each row. Words are not broken, so that names and ids can be copied: only a
word that is longer than the terminal is wide is left to the terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, zip_longest

from runtime.cli.terminal import screen
from runtime.cli.terminal.screen import StyledText, joined, one_line

GAPS = ("   ", "  ", " ")
"""Gaps between columns: the first that fits is used."""

PADDED = 60
"""Maximum columns to which the cells of a column are padded without a terminal. A longer cell is whole, and moves what
follows it in its row."""

FOLDED = 200
"""Maximum number of rows with cells of several lines; longer tables would be unreadable."""

_INDENT = "  "
"""Before the rows below a first column that is above the others."""

TableRow = tuple[str, ...]
Style = Callable[[str], str]
"""Returns the colour of a cell's text; empty for none."""
Grid = Sequence[Sequence[str]]
"""The lines of the head of a table, then those of each row; empty if the columns do not fit."""


def print_rows(columns: Sequence[str], rows: Sequence[TableRow], *, width: int | None, style: Style) -> None:
    """Print `rows`, one cell for each of `columns`. `width`: the terminal's columns; None if there is no terminal."""
    columns = list(map(one_line, columns))
    cells = [tuple(map(_cell, row)) for row in rows]
    sizes = _sizes(columns, cells)
    if width is None:
        sizes = [min(size, PADDED) for size in sizes]
    gap = next((gap for gap in GAPS if width is None or _total(sizes, gap) <= width), None)
    # One write instead of one per line.
    if gap is not None:
        return screen.echo_lines(_plain(columns, cells, sizes, gap, style))
    assert width is not None
    return screen.echo_lines(_narrow(columns, cells, width, style))


def _sizes(columns: Sequence[str], cells: Sequence[TableRow]) -> Sequence[int]:
    return [max(map(cell_width, column)) for column in zip(columns, *cells, strict=True)]


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


def _cell(text: str) -> str:
    shown = one_line(text)
    return shown if shown == text else " ".join(shown.split())


def _plain(
    columns: Sequence[str], cells: Sequence[TableRow], sizes: Sequence[int], gap: str, style: Style
) -> Iterator[str]:
    yield _line([_bold(name) for name in columns], columns, sizes, gap)
    yield screen.rule(_total(sizes, gap))
    for row in cells:
        yield _line([_coloured(cell, style) for cell in row], row, sizes, gap)


def _line(shown: Sequence[str], plain: Sequence[str], sizes: Sequence[int], gap: str) -> StyledText:
    padded = [
        joined((text, " " * (size - cell_width(bare)))) for text, bare, size in zip(shown, plain, sizes, strict=True)
    ]
    return StyledText(joined(padded, gap).rstrip())


def _narrow(columns: Sequence[str], cells: Sequence[TableRow], width: int, style: Style) -> Sequence[str]:
    """Return the lines of a table that is wider than the terminal."""
    grids = [_blocks(columns, cells, width, style)]
    if len(cells) <= FOLDED:
        grids = [_folded(columns, cells, width, style), _below_the_first(columns, cells, width, style), *grids]
    head, *rows = min(filter(None, grids), key=lambda grid: sum(map(len, grid[1:])))
    return [*head, *([screen.rule(width)] if head else []), *chain(*rows)]


def _folded(columns: Sequence[str], cells: Sequence[TableRow], width: int, style: Style) -> Grid:
    """Return rows with cells of several lines."""
    words = [max(map(_longest_word, column)) for column in zip(columns, *cells, strict=True)]
    room = width - _total(words, GAPS[-1])
    if room < 0:
        return []
    sizes = _spread(words, _sizes(columns, cells), room)
    gap = next((gap for gap in GAPS if _total(sizes, gap) <= width), GAPS[-1])
    grid = [[_line(list(map(_bold, line)), line, sizes, gap) for line in _wrapped(columns, sizes)]]
    for row in cells:
        paints = [_painter(cell, style) for cell in row]
        grid.append(
            [
                _line([paint(part) for paint, part in zip(paints, line, strict=True)], line, sizes, gap)
                for line in _wrapped(row, sizes)
            ]
        )
    return grid


def _below_the_first(columns: Sequence[str], cells: Sequence[TableRow], width: int, style: Style) -> Grid:
    """Return rows with the first column above the others, if it takes more than a third of the width."""
    if not width // 3 < max(cell_width(row[0]) for row in cells) <= width or len(columns) == 1:
        return []
    below = _folded(columns[1:], [row[1:] for row in cells], width - len(_INDENT), style)
    heads = [_bold(columns[0]), *(_coloured(row[0], style) for row in cells)]
    return [[head, *(joined((_INDENT, line)) for line in lines)] for head, lines in zip(heads, below, strict=False)]


def _blocks(columns: Sequence[str], cells: Sequence[TableRow], width: int, style: Style) -> Grid:
    """Return rows as lines of name and cell, without empty cells; there is no head."""
    size = max(map(len, columns))
    grid: list[list[str]] = [[]]
    for row in cells:
        lines = [""] if len(grid) > 1 else []
        for name, cell in zip(columns, row, strict=True):
            if cell not in {"", "-"}:
                paint, head = _painter(cell, style), _bold(name.ljust(size))
                for part in _wrap(cell, width - size - 2):
                    lines.append(joined((head, paint(part)), "  "))
                    head = " " * size
        grid.append(lines)
    return grid


def _wrapped(row: Sequence[str], sizes: Sequence[int]) -> Iterator[tuple[str, ...]]:
    return zip_longest(*(_wrap(cell, size) for cell, size in zip(row, sizes, strict=True)), fillvalue="")


def _wrap(cell: str, size: int) -> list[str]:
    """Return `cell` on lines of at most `size` columns; a word that is longer is on a line of its own."""
    if cell_width(cell) <= size:
        return [cell]
    lines: list[str] = []
    for word in cell.split():
        if lines and cell_width(f"{lines[-1]} {word}") <= size:
            lines[-1] = f"{lines[-1]} {word}"
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


def _bold(text: str) -> str:
    return screen.style(text, bold=True)


def _painter(cell: str, style: Style) -> Style:
    """Return what gives each line of a cell the cell's colour."""
    colour = style(cell)
    return (lambda part: screen.style(part, fg=colour) if part else part) if colour else str


def _coloured(cell: str, style: Style) -> str:
    return _painter(cell, style)(cell)
