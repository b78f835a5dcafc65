"""The daemon on PostgreSQL: the same promises, and one daemon at a time while memories are files."""

from __future__ import annotations

from pathlib import Path

from tests.lanes import LONG
from tests.runtime.daemon import sharing
from tests.runtime.daemon.running import on_postgres, running, symbi, until, write_program

LEASED = f"{sharing.__name__}:{sharing.leased.__name__}"


@LONG
def test_a_delivery_survives_a_kill_and_is_remembered(tmp_path: Path, postgres_url: str) -> None:
    write_program(tmp_path)
    environ = on_postgres(postgres_url)
    accepted = {}
    for turn in range(3):
        with running(tmp_path, "program", wait=True, command=LEASED, **environ) as daemon:
            for number in range(20):
                answer = daemon.github(b'{"number":"%d-%d"}' % (turn, number), f"{turn}-{number}")
                assert answer.status == 202
                accepted[f"{turn}-{number}"] = answer.json()["delivery_id"]
            daemon.kill()
    with running(tmp_path, "program", wait=True, command=LEASED, **environ) as daemon:
        # Deliveries of the killed daemons can be claimed again when their leases end.
        until(lambda: all(row["run_state"] == "done" for row in daemon.attempts("--limit", "100")), 120)
        rows = {row["provider_delivery_id"]: row["delivery_id"] for row in daemon.attempts("--limit", "100")}
        text = "".join(file.read_text() for file in (tmp_path / "data/agents/reviewer/logs").glob("*.md"))
    assert rows == accepted
    assert all(f"- number: {name}\n" in text for name in accepted)


def test_a_second_daemon_on_the_same_database_is_refused_while_memories_are_files(
    tmp_path: Path, postgres_url: str
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for root in (first, second):
        root.mkdir()
        write_program(root)
    environ = on_postgres(postgres_url)
    with running(first, "program", wait=True, **environ) as daemon:
        ports = ("--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
        done = symbi("up", "program", *ports, root=second, **environ)
        assert done.returncode == 1
        assert "another daemon uses this database" in done.stderr
        assert "Traceback" not in done.stderr
        assert daemon.readyz().status == 200
    with running(second, "program", wait=True, **environ) as daemon:
        assert daemon.readyz().status == 200
