"""The interface of remotes."""

from __future__ import annotations

from typing import Any, Literal, Protocol

Outlook = Literal["later", "never", "changed"]
"""Outlook of a failed sending: it may succeed later on its own, never for this record, or after the options changed."""


class RemoteOff(Exception):  # noqa: N818 - it says what is the case
    """The options do not allow sending; the text contains the reason, without secrets."""


class NotSent(Exception):  # noqa: N818
    """A record was not accepted. The text is one line without anything that was sent.

    `status`: of the answer, None without one. `retry_after`: seconds for which the service asks not to be called.
    """

    def __init__(
        self, message: str, outlook: Outlook, *, status: int | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.outlook = outlook
        self.status = status
        self.retry_after = retry_after


class Remote(Protocol):
    """A service that records are sent to. One event loop uses it."""

    name: str
    seconds: float
    """The longest time that one sending takes."""

    async def send(self, record: dict[str, Any]) -> None:
        """Send the record; return after the service has accepted it. The idempotency key is its id, also when it is
        sent again. Raises NotSent."""

    async def close(self) -> None:
        """Close connections."""
