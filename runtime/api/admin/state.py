"""First parameter of every operation: a tool's context, and the state that only administrators use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runtime.identity.tokens import Tokens
from runtime.secrets.backend import SecretContext
from runtime.tools.context import Context
from runtime.webhooks.routing.route import MountedWebhook


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminContext(Context):
    """State of an open root. The caller is the root's own user."""

    secrets: SecretContext
    tokens: Tokens
    mounts: Mapping[str, MountedWebhook]
    """Every webhook: declared ones by name, dynamic ones by id."""
    addresses: Mapping[str, str]
    """Addresses of the listeners by name (`public`, `admin`); empty without a daemon."""
    on_queued: Callable[[], None]
    """Call it after queueing deliveries."""
    follow_secrets: Callable[[], Awaitable[None]]
    """Serves with the generated secrets as they are now, after a rotation."""
    state: Path
    """The state folder."""
    key_from: str
    """Source of the master key, safe to show."""
    environment_notes: Sequence[str]
    """Environment variables for embeddings and summaries that have no effect, one line each."""
    resumed: bool
    """True if the last valid program runs because the one at the start had errors."""
    reload_problem: str | None
    """The reason why the last reload failed, in one line."""
    missing_secrets: Sequence[str]
    """The reasons why secrets could not be resolved, one line each."""
    kept_secrets: Sequence[str]
    """The reasons why secrets could not be read again and keep their last value, one line each."""
