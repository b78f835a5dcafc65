"""Errors named for what the caller does next: tell the person, try again, or give up on this one."""

from __future__ import annotations


class SymbiontError(Exception):
    """Something went wrong that a person can act on; shown as one line and never as a traceback.

    `str(error)` says what and where; `hint` says what to do. `exit_code` is what a command ends with.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint

    def line(self) -> str:
        """The whole error in one line."""
        return f"{self} ({self.hint})" if self.hint else str(self)


class UsageError(SymbiontError):
    """The command cannot run as it was given: a wrong path, option or state. Exit code 2."""

    exit_code = 2


class Retry(SymbiontError):  # noqa: N818 - named for the decision, not for the fault
    """This attempt failed; the same work may succeed later."""


class GiveUp(SymbiontError):  # noqa: N818
    """Trying again cannot help: the work becomes a dead letter at once."""


class NotFound(UsageError):  # noqa: N818 - it says what is the case
    """What was asked for is not there, or is somebody else's: the two look the same."""


class Conflict(SymbiontError):  # noqa: N818
    """It cannot be done as things are now; asking for the same again may work when they have changed."""
