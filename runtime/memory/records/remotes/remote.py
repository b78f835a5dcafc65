"""What every remote promises."""

from __future__ import annotations

from typing import Any, Literal, Protocol

Outlook = Literal["later", "never", "changed"]
"""Whether sending may succeed: by itself after a while; never with this record; when the options are changed."""


class RemoteOff(Exception):  # noqa: N818 - it says what is the case
    """Nothing can be sent with these options; the text says why, and holds no secret."""


class NotSent(Exception):  # noqa: N818
    """A record was not taken. The text is one line that holds nothing of what was sent.

    `status`: of the answer, None when there was none. `retry_after`: seconds in which the service wants no other call.
    """

    def __init__(
        self, message: str, outlook: Outlook, *, status: int | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.outlook = outlook
        self.status = status
        self.retry_after = retry_after


class Remote(Protocol):
    """Somewhere that records are sent to. One event loop uses it."""

    name: str
    seconds: float
    """How long one sending takes at the most."""

    async def send(self, record: dict[str, Any]) -> None:
        """Return when the service has taken the record. A record that is sent again has the same idempotency key: its
        id. Raises NotSent."""

    async def close(self) -> None:
        """Let go of connections."""
