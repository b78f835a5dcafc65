"""Options of a report, and data it shows besides the diagnostics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dslc.editing.fix import AppliedFix


class View(NamedTuple):
    """`deny_warnings`: a warning fails the check. `applied`: the fixes applied before the compilation; None if fixes
    were not requested."""

    colour: bool = False
    deny_warnings: bool = False
    applied: Sequence[AppliedFix] | None = None
