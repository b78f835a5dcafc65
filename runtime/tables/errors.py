"""Errors of SQL tables and the key-value store."""

from __future__ import annotations

from runtime.errors import Conflict, Retry, UsageError


class StatementError(UsageError):
    """A statement is not allowed, is wrong, or failed; nothing was changed. The message says what to change, in words
    that a language model can act on."""


class QuotaExceeded(Conflict):
    """The change would exceed what the user may store; nothing was changed. The message names the limit, what is used
    and what is free. Reading and deleting are always possible."""


class TablesUnavailable(Retry):
    """The database of the user's tables does not answer at present; nothing was changed, unless `maybe_done`."""
