"""The tables of users in a daemon: their keys follow those of users, and they are closed with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.daemon.program.key_upkeep import KeyUpkeep
from tests.clocks import ManualClock
from tests.runtime.daemon.keys.test_key_upkeep import app_on, call, failing
from tests.runtime.tables.sqlite.opened import FREE, templates


async def test_a_daemon_gives_the_files_of_users_new_keys_after_a_rotation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: ManualClock
) -> None:
    root = tmp_path / "root"
    async with app_on(root, f"sqlite:///{root / 'main.db'}", monkeypatch, clock) as app:
        await app.load_nothing()
        assert app.state.sql is not None
        await app.state.sql.run("owner", "CREATE TABLE notes (text)", (), FREE)
        (before,) = (root / ".symbi" / "tables").glob("*.db")
        await KeyUpkeep(app, failing).run_once()
        assert before.exists()
        await call(app, "key_rotate", user="owner")
        await KeyUpkeep(app, failing).run_once()
        (after,) = (root / ".symbi" / "tables").glob("*.db")
        assert after != before
        assert (await app.state.sql.run("owner", "SELECT count(*) AS n FROM notes", (), FREE)).rows == [[0]]
        assert templates()
    assert not templates()
    assert not list((root / ".symbi" / "tables").glob("*-wal"))
