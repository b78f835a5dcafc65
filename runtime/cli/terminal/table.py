"""Text tables: at full width if they fit the terminal, else narrower, in the form with the fewest lines.

A narrower table has smaller gaps; then cells of several lines, which rich lays out, or a block of lines for each row.
Words are not broken, so that names and ids can be copied: only a word that is longer than the terminal is wide is left
to the terminal.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence

from runtime.cli.terminal import screen
from runtime.cli.terminal.screen import StyledText, joined, one_line

GAPS = ("   ", "  ", " ")
"""Gaps between columns: the first that fits is used."""

PADDED = 60
"""Maximum columns to which the cells of a column are padded without a terminal. A longer cell is whole, and moves what
follows it in its row."""

FOLDED = 200
"""Maximum number of rows with cells of several lines; longer tables would be unreadable."""

TableRow = tuple[str, ...]
Style = Callable[[str], str]
"""Returns the colour of a cell's text; empty for none."""


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
        return screen.echo_lines(_single_line_table(columns, cells, sizes, gap, style))
    assert width is not None
    folded, blocks = _multiline_table(columns, cells, width, style), list(_blocks(columns, cells, width, style))
    # A head and a rule cost two lines once, however many rows there are.
    return screen.echo_lines(folded if folded and len(folded) - 2 <= len(blocks) else blocks)


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


def _single_line_table(
    columns: Sequence[str], cells: Sequence[TableRow], sizes: Sequence[int], gap: str, style: Style
) -> Iterator[str]:
    yield _line([screen.style(name, bold=True) for name in columns], columns, sizes, gap)
    yield screen.rule(_total(sizes, gap))
    for row in cells:
        yield _line([screen.style(cell, fg=style(cell) or None) for cell in row], row, sizes, gap)


def _line(shown: Sequence[str], plain: Sequence[str], sizes: Sequence[int], gap: str) -> StyledText:
    padded = [
        joined((text, " " * (size - cell_width(bare)))) for text, bare, size in zip(shown, plain, sizes, strict=True)
    ]
    return StyledText(joined(padded, gap).rstrip())


def _multiline_table(columns: Sequence[str], cells: Sequence[TableRow], width: int, style: Style) -> Sequence[str]:
    """Return the lines of a table with cells of several lines; none if the words do not fit."""
    words = [max(map(_longest_word, column)) for column in zip(columns, *cells, strict=True)]
    room = width - _total(words, GAPS[-1])
    if room < 0 or len(cells) > FOLDED:
        return []
    from rich.box import Box
    from rich.table import Table
    from rich.text import Text

    sizes = _column_widths(words, _sizes(columns, cells), room)
    gap = next((len(gap) for gap in GAPS if _total(sizes, gap) <= width), 1)
    blank, ruled = "    \n", f"{screen.rule(4)}\n"
    box = Box(blank * 2 + ruled + blank * 5)
    table = Table(box=box, show_edge=False, pad_edge=False, padding=(0, gap - 1, 0, 0), header_style="bold")
    for name, size in zip(columns, sizes, strict=True):
        table.add_column(Text(name), width=size)
    for row in cells:
        table.add_row(*(Text(cell, style(cell)) for cell in row))
    return screen.rendered_lines(table, width)


def _column_widths(least: Sequence[int], sizes: Sequence[int], room: int) -> list[int]:
    """Return `least` plus a share of `room` for each column: columns that need little get all they need."""
    given = list(least)
    wanting = sorted(range(len(sizes)), key=lambda column: sizes[column] - least[column])
    for place, column in enumerate(wanting):
        more = min(sizes[column] - least[column], room // (len(wanting) - place))
        given[column] += more
        room -= more
    return given


def _blocks(columns: Sequence[str], cells: Sequence[TableRow], width: int, style: Style) -> Iterator[str]:
    """Yield lines of name and cell, without empty cells, and an empty line between rows."""
    size = max(map(len, columns))
    for number, row in enumerate(cells):
        if number:
            yield ""
        for name, cell in zip(columns, row, strict=True):
            head = screen.style(name.ljust(size), bold=True)
            for part in _wrap(cell, width - size - 2) if cell not in {"", "-"} else ():
                yield joined((head, screen.style(part, fg=style(cell) or None)), "  ")
                head = StyledText(" " * size)


def _wrap(cell: str, size: int) -> list[str]:
    return textwrap.wrap(cell, max(size, 1), break_long_words=False, break_on_hyphens=False)
