"""What operations need of the state that they act on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from runtime.identity import Tokens
from runtime.secrets import Context
from runtime.tools.context import House as ToolsHouse
from runtime.webhooks.route import Mount


class House(ToolsHouse, Protocol):
    """An opened root with a running program."""

    secrets: Context
    tokens: Tokens
    addresses: dict[str, str]
    """The listeners' addresses by name (`public`, `admin`); empty when no daemon runs."""
    on_queued: Callable[[], None]
    """What to call when an operation queued deliveries."""
    mounts: Mapping[str, Mount]
    """Every webhook, declared ones by name and those made at run time by id."""

    async def follow_secrets(self) -> None:
        """Serve with the generated secrets as they are now, when one was rotated."""
