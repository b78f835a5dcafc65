"""Tables in text: as wide as they are where nothing is in the way, else folded, else a block of lines for each row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import click

GAP = "   "
NARROW = 1.8
"""A terminal that is narrower than the table by more than this factor is too narrow for columns."""

FOLDED = 200
"""Rows that are folded at most: to fold thousands takes longer than anybody waits."""

Row = tuple[str, ...]
Style = Callable[[str], str]
"""The colour of a cell's text; empty for none."""


def print_rows(columns: Sequence[str], rows: Sequence[Row], *, width: int | None, style: Style) -> None:
    """Print `rows`, one cell for each of `columns`. `width`: the terminal's columns; None when there is no terminal."""
    cells = [tuple(map(_one_line, row)) for row in rows]
    sizes = [max(map(cell_width, column)) for column in zip(columns, *cells, strict=True)]
    natural = sum(sizes) + len(GAP) * (len(sizes) - 1)
    if width is None or natural <= width:
        lines = _plain(columns, cells, sizes, style)
    elif natural > NARROW * width or len(rows) > FOLDED:
        lines = _blocks(columns, cells, style)
    else:
        return _folded(columns, rows, style)
    # One write: thousands of lines would be thousands of writes.
    return click.echo("\n".join(lines))


def cell_width(text: str) -> int:
    """The columns that `text` takes on a terminal."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _one_line(text: str) -> str:
    return text if text.isprintable() else " ".join(text.split())


def _plain(columns: Sequence[str], cells: Sequence[Row], sizes: Sequence[int], style: Style) -> Iterator[str]:
    yield _line([click.style(name, bold=True) for name in columns], columns, sizes)
    yield "─" * (sum(sizes) + len(GAP) * (len(sizes) - 1))
    for row in cells:
        yield _line([_coloured(cell, style) for cell in row], row, sizes)


def _line(shown: Sequence[str], plain: Sequence[str], sizes: Sequence[int]) -> str:
    padded = [text + " " * (size - cell_width(bare)) for text, bare, size in zip(shown, plain, sizes, strict=True)]
    return GAP.join(padded).rstrip()


def _blocks(columns: Sequence[str], cells: Sequence[Row], style: Style) -> Iterator[str]:
    """Each row's cells below one another, those that say nothing left out."""
    size = max(map(len, columns))
    for place, row in enumerate(cells):
        if place:
            yield ""
        for name, cell in zip(columns, row, strict=True):
            if cell not in {"", "-"}:
                yield f"{click.style(name.ljust(size), bold=True)}  {_coloured(cell, style)}"


def _folded(columns: Sequence[str], rows: Sequence[Row], style: Style) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        # Text, not markup: a webhook's event may hold square brackets.
        table.add_row(*(Text(cell, style=style(cell)) for cell in row))
    Console(highlight=False).print(table)


def _coloured(cell: str, style: Style) -> str:
    return click.style(cell, fg=colour) if (colour := style(cell)) else cell
