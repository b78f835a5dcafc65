"""Errors, named for the caller's next decision: report, retry, or give up."""

from __future__ import annotations


class SymbiontError(Exception):
    """An error that a person can act on; shown as one line, never as a traceback.

    `str(error)` says what is wrong and where; `hint` says what to do. `exit_code` is the exit code of a command.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint

    def line(self) -> str:
        """Return message and hint in one line."""
        return f"{self} ({self.hint})" if self.hint else str(self)


class UsageError(SymbiontError):
    """The command cannot run with the given path, option or state. Exit code 2."""

    exit_code = 2


class Retry(SymbiontError):  # noqa: N818 - named for the decision, not for the error
    """This attempt failed; the same work may succeed later."""


class GiveUp(SymbiontError):  # noqa: N818
    """A retry cannot succeed: the work becomes a dead letter at once."""


class NotFound(UsageError):  # noqa: N818
    """The object does not exist, or belongs to another user; the two are not distinguished."""


class Conflict(SymbiontError):  # noqa: N818
    """The operation conflicts with the present state; the same request may succeed when the state has changed."""
