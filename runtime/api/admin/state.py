"""What operations need of the state that they act on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from runtime.identity.tokens import Tokens
from runtime.secrets.backend import SecretContext
from runtime.tools.context import App as ToolsApp
from runtime.webhooks.routing.route import Mount


class App(ToolsApp, Protocol):
    """An opened root with a running program."""

    secrets: SecretContext
    tokens: Tokens
    addresses: dict[str, str]
    """The listeners' addresses by name (`public`, `admin`); empty when no daemon runs."""
    on_queued: Callable[[], None]
    """What to call when an operation queued deliveries."""
    mounts: Mapping[str, Mount]
    """Every webhook, declared ones by name and those made at run time by id."""

    @property
    def environment_notes(self) -> Sequence[str]:
        """What the environment says of embeddings and summaries without any effect, one line each."""

    @property
    def key_from(self) -> str:
        """Where the master key is from, safe to show."""

    @property
    def state(self) -> Path:
        """The state folder."""

    resumed: bool
    """Whether the program that runs is the last good one, because the start found a broken one."""

    @property
    def reload_problem(self) -> str | None:
        """Why the last reload changed nothing, in one line."""

    @property
    def missing_secrets(self) -> list[str]:
        """Why those secrets are not there that could not be resolved."""

    @property
    def kept_secrets(self) -> list[str]:
        """Why those secrets could not be read again that keep their last value."""

    async def follow_secrets(self) -> None:
        """Serve with the generated secrets as they are now, when one was rotated."""
