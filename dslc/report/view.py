"""How a report is wanted, and what it tells beside the diagnostics."""

from __future__ import annotations

from dataclasses import dataclass

from dslc.source import Position


@dataclass(frozen=True, slots=True)
class Applied:
    """A fix that was applied. `position`: where its diagnostic stood in the text it was applied to."""

    code: str
    message: str
    file: str
    position: Position


@dataclass(frozen=True, slots=True)
class View:
    """`deny_warnings`: a warning fails the check. `applied`: what was fixed before the compilation that is shown."""

    colour: bool = False
    deny_warnings: bool = False
    applied: tuple[Applied, ...] = ()
