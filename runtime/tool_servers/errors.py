"""Errors of calls of a server's tools, named for what the caller has to know: sent or not, refused or not."""

from __future__ import annotations

from runtime.errors import Retry, SymbiontError, UsageError


class ServerAway(Retry):
    """The server cannot be asked now. Nothing was sent, so nothing happened."""


class CallUncertain(SymbiontError):  # noqa: N818
    """The call was sent, and there is no answer: it may have happened."""


class ToolFailed(UsageError):  # noqa: N818
    """The server answered that the call failed. The message is the server's, without secrets of its block."""
