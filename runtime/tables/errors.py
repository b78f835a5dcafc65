"""Errors of SQL tables and the key-value store."""

from __future__ import annotations

from typing import Final

from runtime.errors import Conflict, Retry, UsageError

LOOK_FIRST: Final = "the change may have been made: look before you repeat it"
"""The hint of an error that is `maybe_done`."""


class StatementError(UsageError):
    """A statement is not allowed, is wrong, or failed; nothing was changed. The message says what to change, in words
    that a language model can act on. `row`: position of the parameters that failed, from 0, of a statement that runs
    for several; None for others."""

    row: int | None = None

    def of_row(self, position: int) -> StatementError:
        """Return the error, with the position of the parameters that failed."""
        self.row = position
        return self


class ReadOnlyStatement(StatementError):  # noqa: N818
    """The statement would change something, and was to be run only if it does not."""


class QuotaExceeded(Conflict):
    """The change would exceed what the user may store; nothing was changed. The message names the limit, what is used
    and what is free. Reading and deleting are always possible. `row`: see `StatementError`."""

    row: int | None = None


class TablesUnavailable(Retry):
    """The database of the user's tables does not answer at present; nothing was changed, unless `maybe_done`."""
