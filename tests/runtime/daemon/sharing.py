"""`symbi`, but that several daemons may share one database, each with memories in its own folder.

That is how daemons share a database whose memories are not files. `SHARING_…` variables make the lease shorter, runs
and the time between two looks at the inbox longer.
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
from runtime.webhooks.deliveries.inbox import Inbox

RUN_SECONDS = float(os.environ.get("SHARING_RUN", "0.2"))


async def slow_act(*given: Any) -> None:
    """What a daemon calls to run an agent."""
    await asyncio.sleep(RUN_SECONDS)
    await act(*given)


async def claimed(_database: Database) -> bool:
    """What a daemon is told that asks whether it alone may keep files."""
    return True


def share() -> None:
    """Change what has to be changed for that, in this process."""
    for where, name, value in ((Database, "claim_alone", claimed), (server, "act", slow_act)):
        assert hasattr(where, name)
        setattr(where, name, value)
    shorten()


def shorten() -> None:
    """Have leases end in seconds."""
    for where, name, value in ((Inbox, "lease", "3"), (Dispatcher, "poll", "0.2")):
        defaults = where.__init__.__kwdefaults__
        assert defaults is not None
        defaults[name] = float(os.environ.get(f"SHARING_{name.upper()}", value))


def shared() -> None:
    """The command."""
    share()
    main()


def leased() -> None:
    """`symbi`, but that its leases are short."""
    shorten()
    main()
