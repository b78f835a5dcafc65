"""Records in a daemon: accepted by gates, and sent to a remote that is not always reachable, also through kills."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.lanes import LONG
from tests.runtime.daemon.running import GITHUB, Daemon, running, until, write_program

pytestmark = LONG

FAILING = "tests.runtime.daemon.failing_fsync:failing"
KEY = "the-key-of-contextstream"
PROGRAM = """\
memory audited {{
    store records {{
        gates [{gates}]
        remote contextstream {{
            url     "secret://env/CONTEXTSTREAM_URL"
            api_key "secret://env/CONTEXTSTREAM_API_KEY"
            project "neuronx"
        }}
    }}
    path      "data/records"
    embedding hashing
}}

"""


class Taken(list[dict[str, Any]]):
    """Return what was sent to the remote."""

    url = ""


@contextmanager
def contextstream(port: int = 0) -> Iterator[Taken]:
    """A remote that accepts everything."""
    taken = Taken()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            taken.append({**body["record"], "key": self.headers["Idempotency-Key"]})
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    taken.url = f"http://127.0.0.1:{server.server_address[1]}/memories"
    thread = threading.Thread(target=server.serve_forever, args=[0.01])
    thread.start()
    try:
        yield taken
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2].partition("/")[0])


def push(number: int) -> bytes:
    return json.dumps({"ref": f"refs/heads/b{number}", "repository": {"full_name": "acme/shop"}}).encode()


def kept(root: Path) -> list[dict[str, Any]]:
    return [json.loads(file.read_bytes()) for file in sorted((root / "data/records/reviewer").glob("2*_*.json"))]


def memory_check(daemon: Daemon) -> dict[str, str]:
    checks = json.loads(daemon.symbi("readiness", "--json").stdout)["checks"]
    found: dict[str, str] = next(row for row in checks if row["check"] == "memory audited")
    return found


def test_an_agent_cannot_close_gates_and_its_delivery_is_not_tried_again(tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM.format(gates="governance") + GITHUB)
    with running(tmp_path, "program") as daemon:
        assert daemon.github(push(1), "d1").status == 202
        until(lambda: [row["state"] for row in daemon.attempts()] == ["dead"], what="a dead letter")
        (row,) = daemon.attempts()
        assert "governance" in json.dumps(row)
        assert kept(tmp_path) == []
        done = daemon.symbi("memory", "write", "reviewer", "By hand", "--close-governance", "done:looked at it")
        assert done.returncode == 0, done.stderr
        (record,) = kept(tmp_path)
        assert record["gates"] == {"governance": "done:looked at it"}


def test_an_fsync_that_fails_while_nobody_waits_for_it_ends_the_daemon(tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM.format(gates="") + GITHUB)
    with contextstream() as taken:
        url = taken.url
    with running(tmp_path, "program", command=FAILING, CONTEXTSTREAM_URL=url, CONTEXTSTREAM_API_KEY=KEY) as daemon:
        done = daemon.symbi("memory", "write", "reviewer", "Sent later")
        assert done.returncode == 0, done.stderr
        until(lambda: "1 record waits" in memory_check(daemon)["text"], what="what waits")
        (tmp_path / "broken-disk").touch()
        with contextstream(port_of(url)):
            until(lambda: daemon.process.poll() is not None, what="the end")
        assert daemon.process.poll() == 1


def test_records_of_a_daemon_that_was_killed_reach_a_remote_that_was_away(tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM.format(gates="") + GITHUB)
    with contextstream() as taken:
        url = taken.url
    with running(tmp_path, "program", CONTEXTSTREAM_URL=url, CONTEXTSTREAM_API_KEY=KEY) as daemon:
        for number in range(5):
            assert daemon.github(push(number), f"d{number}").status == 202
        until(lambda: len(kept(tmp_path)) == 5, what="five records")
        until(lambda: "5 records wait" in memory_check(daemon)["text"], what="what waits")
        assert memory_check(daemon)["status"] == "YELLOW"
        daemon.kill()
    with (
        contextstream(port_of(url)) as taken,
        running(tmp_path, "program", CONTEXTSTREAM_URL=url, CONTEXTSTREAM_API_KEY=KEY) as daemon,
    ):
        until(lambda: all(record["remote_store_error"] is None for record in kept(tmp_path)), what="all sent")
        assert sorted(record["key"] for record in taken) == sorted(record["id"] for record in kept(tmp_path))
        until(lambda: memory_check(daemon)["status"] == "GREEN", what="the end of the sending")
        assert daemon.symbi("memory", "verify").returncode == 0
        assert KEY not in daemon.log.read_text()
    assert not list((tmp_path / "data/records/reviewer/outbox").glob("*.json"))
