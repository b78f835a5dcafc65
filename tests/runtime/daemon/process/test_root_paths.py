"""A root's path is a path, whatever characters or bytes it has: nothing reads it as a URL or as UTF-8."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.daemon.running import Daemon, running, symbi, until, write_program

NAMES = {
    "escapes, a query and a fragment": b"a%62 %2F % que?st=1&mode=memory#frag",
    "a URI": b"file:x?mode=ro",
    "quotes and a line end": b'it\'s "$HOME" \\ {}\nlines',
    "no UTF-8, and an emoji": b"caf\xe9 \xff " + "größe 😀".encode(),
}
ASKED: list[dict[str, Any]] = [
    {"id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}},
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/call", "params": {"name": "search", "arguments": {"query_text": "okapi"}}},
]  # fmt: skip


def asked(*arguments: str, root: Path, text: str | None = None) -> str:
    done = symbi(*arguments, root=root, input=text)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def delivered(daemon: Daemon) -> list[str]:
    found = json.loads(asked("webhook", "deliveries", "--json", root=daemon.root))["deliveries"]
    return [row["provider_delivery_id"] for row in found]


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_root_may_have_any_name(tmp_path: Path, name: bytes) -> None:
    root = tmp_path / os.fsdecode(name)
    root.mkdir()
    write_program(root)
    for turn in ("first", "second"):  # what the first start made is found by the second
        with running(root, "program") as daemon:
            assert daemon.github(b'{"ref":"refs/heads/okapi"}', turn).status == 202
            assert turn in delivered(daemon)
            until(lambda: "okapi" in asked("memory", "search", "reviewer", "okapi", root=root), what="the entry")
            asked("table", "sql", f"CREATE TABLE {turn} (a INTEGER)", root=root)
            assert turn in asked("table", "schema", root=root)
            text = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in ASKED)
            answer = json.loads(asked("mcp", root=root, text=text).splitlines()[-1])
            assert answer["result"]["structuredContent"]["hits"] == []  # of the collection
            assert json.loads(asked("readiness", "--json", root=root))["status"] != "RED"
    assert "first" in asked("table", "schema", root=root)  # without a daemon
    assert "okapi" in asked("memory", "search", "reviewer", "okapi", root=root)
    assert [each.name for each in tmp_path.iterdir()] == [root.name]


def test_a_root_reads_only_its_own_deliveries(tmp_path: Path) -> None:
    for name in ("ab", "a%62"):
        root = tmp_path / name
        root.mkdir()
        write_program(root)
        with running(root, "program") as daemon:
            assert daemon.github(b"{}", name).status == 202
            assert delivered(daemon) == [name]
