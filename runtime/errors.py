"""Errors, named for the caller's next decision: report, retry, or give up."""

from __future__ import annotations


class SymbiontError(Exception):
    """An error that a person can act on; shown as one line, never as a traceback.

    `str(error)` says what is wrong and where; `hint` says what to do. `exit_code` is the exit code of a command.
    """

    exit_code = 1

    may_pass = False
    """True if the same may succeed later, although nobody changes anything here."""

    maybe_done = False
    """True if a service may have done what it was asked, although its answer did not arrive whole."""

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
    """This attempt failed; the same work may succeed later. `retry_after`: seconds that a service asks to wait."""

    retry_after: float | None = None


class RateLimited(Retry):
    """The user has done this too often for now; nothing was done."""

    retry_after: int

    def __init__(self, message: str, *, retry_after: int) -> None:
        """`retry_after`: seconds after which it is possible again."""
        super().__init__(message, hint=f"try again in {retry_after} s")
        self.retry_after = retry_after


class Away(Retry):
    """Something that the work needs is away, and the work waits for it: no failure of the work, however long it lasts.

    `retry_after`: seconds after which it may be back; None if it does not say.
    """

    state: str = "waiting"
    """State of a run that waits for it."""

    def __init__(self, message: str, *, hint: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class Parked(Away):
    """The work waits for a decision or a time, and trying again earlier is of no use; who decides wakes it, see
    `runtime.threads.turns.parking`.

    `state`: of the run meanwhile, one of `runtime.threads.run.PARKED`. `until`: Unix milliseconds of the next try if
    nobody wakes it; None: only then. `frees_thread`: later turns of its thread run meanwhile.
    """

    def __init__(
        self, message: str, *, state: str, until: int | None, frees_thread: bool = False, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.state = state
        self.until = until
        self.frees_thread = frees_thread


class GiveUp(SymbiontError):  # noqa: N818
    """A retry cannot succeed: the work becomes a dead letter at once. `cause`: the kind of problem, where clients
    distinguish it from others."""

    cause: str | None = None


class NotFound(UsageError):  # noqa: N818
    """The object does not exist, or belongs to another user; the two are not distinguished."""


class Conflict(SymbiontError):  # noqa: N818
    """The operation conflicts with the present state; the same request may succeed when the state has changed."""
