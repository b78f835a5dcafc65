"""Hooks of a running daemon for tools and operations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from runtime.webhooks.audit.audit import Audit


def _nothing_queued() -> None:
    """Do nothing: the next daemon finds what was queued."""


def _is_not_stopping() -> bool:
    return False


@dataclass(slots=True)
class DaemonHooks:
    """Hooks that a daemon adds to an open root; a command has none."""

    audit: Audit | None = None
    """Records requests that the daemon does not accept."""
    public_url: str | None = None
    """The URL before the paths that senders use; None: that of the public listener."""
    listen: str = "127.0.0.1:8080"
    """Address of the public listener that the settings name; used while none is open."""
    addresses: dict[str, str] = field(default_factory=dict)
    """Addresses of the listeners by name (`public`, `admin`)."""
    on_queued: Callable[[], None] = _nothing_queued
    """Call it after queueing deliveries or messages."""
    cancel_run: Callable[[str, str], Awaitable[str]] | None = None
    """Cancels a run, by its id and its user's: see `Dispatcher.cancel`."""
    is_stopping: Callable[[], bool] = _is_not_stopping
    """Returns True while the daemon stops: a call that waits for something ends soon."""
    on_fatal: Callable[[str], None] = lambda _reason: None
    """Called with the reason when the process must stop."""

    def url_of(self, path: str) -> str:
        """Return the URL at which senders reach `path`."""
        base = self.public_url or f"http://{self.addresses.get('public', self.listen)}"
        return f"{base.rstrip('/')}{path}"
