"""A rotation of keys, and a removal that keeps the data, go on after `kill -9` of the daemon, and lose nothing."""

from __future__ import annotations

import asyncio
import json
import os
import random
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from sqlalchemy import Connection

from runtime.daemon.process import master_key
from runtime.daemon.process.root import Root, make
from runtime.database.connection import Database
from runtime.database.schema import bodies, items, messages, steps, users
from tests.lanes import LONG
from tests.runtime.daemon.running import Daemon, running, symbi, until, write_program
from tests.runtime.database.keys.sealed_rows import fill, opened, prefixes

pytestmark = LONG

ROUNDS = 6
ROWS = 1500
TABLES = (bodies, items, messages, steps)


def fill_root(folder: Path) -> list[bytes]:
    """Make a root with values of two users; return the values."""
    root = make(folder, os.environ, folder)
    key = master_key.load(root, None, {})

    async def work() -> list[bytes]:
        database = await Database.open(root.state / "symbiont.db", key)

        def write(connection: Connection) -> None:
            holders = {number: ("ada", "bob")[number % 2] for number in range(ROWS)}
            fill(connection, database.keys, holders, tables=TABLES)
            for name in ("ada", "bob"):
                connection.execute(users.insert().values(user_id=name, name=name, created_at=0))

        await database.transact(write)
        values = await opened(database)
        await database.close()
        return values

    return asyncio.run(work())


async def _read(folder: Path) -> tuple[list[bytes], int, int]:
    root = Root(folder)
    database = await Database.open(root.state / "symbiont.db", master_key.load(root, None, {}))
    try:
        found = {prefix for user, prefix in await prefixes(database) if user in ("ada", "bob")}
        return await opened(database, "ada") + await opened(database, "bob"), len(found), len(database.keys.retired)
    finally:
        await database.close()


def kill_during(daemon: Daemon, arguments: Sequence[str], seconds: float) -> None:
    command = threading.Thread(target=lambda: daemon.symbi(*arguments))
    command.start()
    time.sleep(seconds)
    daemon.kill()
    command.join()


@pytest.mark.parametrize("arguments", [("--all",), ("--master", "--yes")], ids=["users", "master"])
def test_every_value_opens_and_the_rotation_is_completed(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    values = sorted(fill_root(tmp_path))
    write_program(tmp_path)
    chance = random.Random(15)
    for _ in range(ROUNDS):
        with running(tmp_path, "program") as daemon:
            kill_during(daemon, ["key", "rotate", *arguments], chance.uniform(0, 1.5))
        found, _, _ = asyncio.run(_read(tmp_path))
        assert sorted(found) == values
    assert not (tmp_path / ".symbi" / master_key.NEXT).exists() or arguments[0] == "--master"
    with running(tmp_path, "program") as daemon:

        def done() -> bool:
            status = json.loads(symbi("key", "status", "--json", root=tmp_path).stdout)
            work = status["resealing"]
            return work is None or not work["due"]

        until(done, what="the pass over all values")
        assert daemon.stop() == 0
    found, current, _ = asyncio.run(_read(tmp_path))
    assert sorted(found) == values
    assert current == 2
    assert not (tmp_path / ".symbi" / master_key.NEXT).exists()


@pytest.mark.parametrize("seconds", [0.0, 0.02, 0.05, 0.1, 0.3, 0.8])
def test_what_is_kept_of_a_removed_user_opens_whenever_the_daemon_was_killed(tmp_path: Path, seconds: float) -> None:
    values = sorted(fill_root(tmp_path))
    write_program(tmp_path)
    with running(tmp_path, "program") as daemon:
        kill_during(daemon, ["user", "remove", "ada", "--keep", "--yes"], seconds)
    found, _, _ = asyncio.run(_read(tmp_path))
    assert sorted(found) == values
    # Done already if the killed one, or the command after the kill, got that far.
    again = symbi("user", "remove", "ada", "--keep", "--yes", root=tmp_path)
    assert again.returncode == 0 or "no user is called 'ada'" in again.stderr
    with running(tmp_path, "program") as daemon:

        def done() -> bool:
            status = json.loads(symbi("key", "status", "--json", root=tmp_path).stdout)
            work = status["resealing"]
            return work is not None and not work["due"]

        until(done, what="the pass over all values")
        assert daemon.stop() == 0
    found, current, retired = asyncio.run(_read(tmp_path))
    assert sorted(found) == values
    # The owner's, and that of the user who stays; the former one is kept for ten minutes.
    assert (current, retired) == (2, 1)
