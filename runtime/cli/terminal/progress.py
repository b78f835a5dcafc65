"""How far a long work is: a bar on standard error, where a terminal shows it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime.memory.indexing.progress import Progress


def no_progress(_what: str, _done: int, _total: int) -> None:
    """Is told and shows nothing: for what may take a while, and has nothing to show."""


@contextmanager
def progress_bar(title: str, *, at_once: bool = True) -> Iterator[Progress]:
    """What to tell how far it is: what is being done, how much of it is done, how much there is (0: nobody knows).

    `at_once`: not only when there is something to tell. The bar is gone when the work is done. Nothing is shown where
    standard error is no terminal.
    """
    if not sys.stderr.isatty():
        yield no_progress
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    bars = Bars(*columns, console=Console(stderr=True), transient=True)
    task = bars.add_task(title, total=None)
    with ExitStack() as stack:
        if at_once:
            stack.enter_context(bars)

        def tell(what: str, done: int, total: int) -> None:
            if not bars.live.is_started:
                stack.enter_context(bars)
            bars.update(task, description=f"{title}: {what}" if what else title, completed=done, total=total or None)

        yield tell
