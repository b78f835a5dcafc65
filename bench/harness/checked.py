"""The receiver with all its checks and limits, without storage: `python -m bench.harness.checked PORT`.

A delivery is accepted as soon as it is verified: the difference to the daemon is the cost of storage.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import tempfile
from pathlib import Path

import uvloop

from bench.harness.load import SECRET
from bench.harness.program import PATH, one_webhook
from runtime.clock import SYSTEM
from runtime.crypto import MasterKey, new_key
from runtime.daemon.listeners.sockets import bind
from runtime.database.connection import Database
from runtime.http.server import Server
from runtime.secrets.secret import Secret
from runtime.webhooks.audit.audit import Audit
from runtime.webhooks.deliveries.delivery import Candidate, Decision
from runtime.webhooks.receiving.admission import Admission
from runtime.webhooks.receiving.receiver import Receiver
from runtime.webhooks.routing.route import RouteTable, build_route

_ACCEPTED = Decision("accepted", "00000000-0000-0000-0000-000000000000")


class Unstored(Admission):
    """Admission that accepts everything immediately."""

    async def admit(self, candidate: Candidate) -> Decision:
        return _ACCEPTED


def table() -> RouteTable:
    """Return the routes: the one webhook that gets the load."""
    mounted = build_route(one_webhook(), origin="bench", secrets=[Secret(SECRET.encode(), "bench")], problem=None)
    assert mounted.route is not None
    assert mounted.route.path == PATH
    return RouteTable.of([mounted])


async def receiving(folder: Path) -> Receiver:
    """Return the receiver of that webhook. `folder`: for a database that stays empty."""
    database = await Database.open(folder / "unused.db", MasterKey(new_key()))
    routes = table()
    return Receiver(lambda: routes, Unstored(database, SYSTEM), Audit(database, SYSTEM), SYSTEM)


async def serve(port: int, folder: Path) -> None:
    """Serve until killed."""
    gc.set_threshold(50_000, 20, 50)
    receiver = await receiving(folder)
    with bind("PORT", f"127.0.0.1:{port}") as listener:
        await Server(receiver.handle).start(listener)
        await asyncio.Event().wait()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        uvloop.run(serve(int(sys.argv[1]), Path(folder)))


if __name__ == "__main__":
    main()
