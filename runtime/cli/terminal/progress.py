"""A progress bar on standard error, if that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from runtime.cli.terminal.screen import one_line

if TYPE_CHECKING:
    from runtime.memory.indexing.progress import Progress


def no_progress(_what: str, _done: int, _total: int) -> None:
    """Show no progress: for calls that may take a while but report nothing."""


@contextmanager
def progress_bar(title: str, *, at_once: bool = True) -> Iterator[Progress]:
    """Yield a function that shows progress: the current step, the amount done, and the total (0: unknown).

    `at_once`: show the bar immediately, not at the first call. The bar is removed at the end. Nothing is shown if
    standard error is not a terminal.
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
    task = bars.add_task(one_line(title), total=None)
    with ExitStack() as stack:
        if at_once:
            stack.enter_context(bars)

        def show(what: str, done: int, total: int) -> None:
            if not bars.live.is_started:
                stack.enter_context(bars)
            shown = one_line(f"{title}: {what}" if what else title)
            bars.update(task, description=shown, completed=done, total=total or None)

        yield show
