"""`symbi` with which several daemons may share one database, each with memories in its own folder.

Otherwise daemons share a database only without memories in files. `SHARING_…` variables make the lease shorter, and
runs and the interval between two checks of the inbox longer.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from runtime.agents.act import act
from runtime.agents.dispatcher import Dispatcher
from runtime.cli import main
from runtime.daemon import server
from runtime.database.connection import Database
from runtime.threads.inputs import Inputs
from runtime.webhooks.deliveries.inbox import Inbox
from runtime.webhooks.routing import dynamic_webhooks

RUN_SECONDS = float(os.environ.get("SHARING_RUN", "0.2"))


async def slow_act(*given: Any) -> str | None:
    """Run an agent after a delay."""
    await asyncio.sleep(RUN_SECONDS)
    return await act(*given)


async def claimed(_database: Database) -> bool:
    """Return that this daemon alone may keep files, to every daemon."""
    return True


def share() -> None:
    """Change the daemon in this process."""
    for where, name, value in ((Database, "claim", claimed), (server, "act", slow_act)):
        assert hasattr(where, name)
        setattr(where, name, value)
    shorten()


def shorten() -> None:
    """Shorten the leases to seconds."""
    for where, name, value in ((Inbox, "lease", "3"), (Inputs, "lease", "3"), (Dispatcher, "poll", "0.2")):
        defaults = where.__init__.__kwdefaults__
        assert defaults is not None
        defaults[name] = float(os.environ.get(f"SHARING_{name.upper()}", value))


def shared() -> None:
    """Run `symbi` as a daemon that shares its database."""
    share()
    main()


def leased() -> None:
    """Run `symbi` with short leases."""
    shorten()
    main()


def leased_without_limit() -> None:
    """Run `symbi` with short leases, and any number of webhooks of a user."""
    assert hasattr(dynamic_webhooks, "PER_USER")
    dynamic_webhooks.PER_USER = 1_000_000  # type: ignore[misc]
    leased()
