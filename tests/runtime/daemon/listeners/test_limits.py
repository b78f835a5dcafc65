"""Limits over real HTTP: which sender has to wait, for how long, and who is unaffected by refusals of others."""

from __future__ import annotations

import re
import socket
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from runtime.clock import SYSTEM
from tests.runtime.daemon.running import GITHUB, SECRET, Answer, Daemon, running, until, write_program
from tests.signatures import sign

LIMITED = GITHUB.replace("provider github\n", "provider github\n    limits { per_minute 5 }\n")
FORWARDED = "X-Forwarded-For"


def signed(daemon: Daemon, delivery_id: str, *more: tuple[str, str]) -> Answer:
    headers = sign("github", SECRET, b"{}", now=SYSTEM.now(), delivery_id=delivery_id, event="push")
    return daemon.request("POST", "/hooks/github", b"{}", [*headers, *more])


def forged(daemon: Daemon, *more: tuple[str, str], path: str = "/hooks/github") -> int:
    return daemon.request("POST", path, b"{}", [("X-Hub-Signature-256", f"sha256={'0' * 64}"), *more]).status


def test_a_webhook_accepts_its_quota_and_says_when_to_come_again_also_after_a_restart(tmp_path: Path) -> None:
    write_program(tmp_path, LIMITED)
    with running(tmp_path, "program") as daemon:
        began = time.monotonic()
        answers = [signed(daemon, str(number)) for number in range(7)]
        took = time.monotonic() - began
        assert [answer.status for answer in answers] == [*[202] * 5, 429, 429]
        first, limited = answers[0], answers[5]
        assert first.headers["ratelimit-policy"] == '"webhook";q=5;w=60'
        assert re.fullmatch(r'"webhook";r=4;t=\d\d', first.headers["ratelimit"])
        assert "retry-after" not in first.headers
        assert limited.json() == {"error": "rate_limited", "message": "too many requests"}
        wait = int(limited.headers["retry-after"])
        assert 59 - took <= wait <= 61
        assert limited.headers["ratelimit"] == f'"webhook";r=0;t={wait}'
        assert signed(daemon, "0").status == 202
        assert [row["reason"] for row in daemon.attempts() if row["status"] == 429] == ["rate_limited"] * 2
        daemon.kill()
    with running(tmp_path, "program") as daemon:
        assert signed(daemon, "7").status == 429


def test_who_forges_has_to_wait_and_uses_up_nobodys_quota(tmp_path: Path) -> None:
    write_program(tmp_path, LIMITED)
    with running(tmp_path, "program", SYMBIONT_ADDRESS_PER_MINUTE="4") as daemon:
        assert [forged(daemon) for _ in range(6)] == [401, 401, 401, 401, 429, 429]
        answer = daemon.request("POST", "/hooks/github", b"{}", [])
        assert answer.json()["error"] == "rate_limited"
        assert 1 <= int(answer.headers["retry-after"]) <= 60
        assert daemon.request("GET", "/healthz").status == 200
    with running(tmp_path, "program", SYMBIONT_ADDRESS_PER_MINUTE="4") as daemon:
        assert signed(daemon, "known").status == 202
        assert [forged(daemon) for _ in range(6)] == [401] * 6
        assert [signed(daemon, str(number)).status for number in range(4)] == [202] * 4


def test_behind_a_proxy_that_was_not_named_nobody_is_locked_out_and_it_is_said_once(tmp_path: Path) -> None:
    write_program(tmp_path)
    with running(tmp_path, "program", SYMBIONT_ADDRESS_PER_MINUTE="3") as daemon:
        assert {forged(daemon, (FORWARDED, "203.0.113.9")) for _ in range(10)} == {401}
        assert signed(daemon, "1", (FORWARDED, "198.51.100.7")).status == 202
        daemon.until_logged("--trusted-proxies 1")
        assert daemon.log.read_text().count("--trusted-proxies 1") == 1


def test_behind_a_named_proxy_each_sender_waits_alone_and_spoofing_changes_nothing(tmp_path: Path) -> None:
    write_program(tmp_path)
    with running(tmp_path, "program", "--trusted-proxies", "1", SYMBIONT_ADDRESS_PER_MINUTE="3") as daemon:
        spoofed = [forged(daemon, (FORWARDED, f"192.0.2.{n}"), (FORWARDED, "203.0.113.9")) for n in range(5)]
        assert spoofed == [401, 401, 401, 429, 429]
        assert signed(daemon, "1", (FORWARDED, "203.0.113.9, 198.51.100.7")).status == 202
        sources = {row["source"] for row in daemon.attempts()}
        assert sources == {"203.0.113.9", "198.51.100.7"}


def test_only_allowed_networks_may_send(tmp_path: Path) -> None:
    write_program(
        tmp_path, GITHUB.replace("provider github\n", 'provider github\n    allow_from ["198.51.100.0/24"]\n')
    )
    with running(tmp_path, "program", "--trusted-proxies", "1") as daemon:
        assert signed(daemon, "1", (FORWARDED, "198.51.100.7")).status == 202
        for more in [(), ((FORWARDED, "203.0.113.9"),), ((FORWARDED, "198.51.100.7, 203.0.113.9"),)]:
            answer = signed(daemon, "2", *more)
            assert (answer.status, answer.json()["error"]) == (403, "forbidden")
        assert [row["reason"] for row in daemon.attempts()][-1] == "address_not_allowed"


def test_bodies_beyond_the_size_to_keep_are_dropped_and_their_deliveries_stay(tmp_path: Path) -> None:
    write_program(tmp_path)

    def count(table: str) -> int:
        with closing(sqlite3.connect(tmp_path / ".symbi/symbiont.db")) as connection:
            return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])

    with running(tmp_path, "program", "--keep-size", "1MiB") as daemon:
        body = b'{"filler":"' + b"x" * 200_000 + b'"}'
        for number in range(8):
            assert daemon.github(body, str(number)).status == 202
        until(lambda: count("bodies") <= 5, what="dropping bodies")
        assert count("deliveries") == 8
        assert daemon.github(body, "0").status == 202
        assert count("deliveries") == 8


def test_who_sends_only_garbage_has_to_wait_and_a_sender_at_the_same_address_does_not(tmp_path: Path) -> None:
    write_program(tmp_path)
    with running(tmp_path, "program", SYMBIONT_ADDRESS_PER_MINUTE="3") as daemon:
        assert signed(daemon, "before").status == 202
        host, _, port = str(daemon.addresses["public"]).rpartition(":")
        answers = []
        for _ in range(5):
            with socket.create_connection((host, int(port)), timeout=30) as link:
                link.sendall(b"nonsense\r\n\r\n")
                link.shutdown(socket.SHUT_WR)
                answers.append(link.makefile("rb").read())
        assert [int(answer.split()[1]) for answer in answers] == [400, 400, 400, 429, 429]
        assert b"\r\nRetry-After: " in answers[-1]
        assert b"\r\nConnection: close\r\n" in answers[-1]
        assert signed(daemon, "after").status == 202
        assert forged(daemon, path="/nothing") == 429
