"""A webhook can be tested with samples of its sender's deliveries."""

from __future__ import annotations

import json
from pathlib import Path

from tests.runtime.daemon.running import running, write_program

PROGRAM = """\
webhook "github-events" {
    path     "/hooks/github"
    provider github
    secret   "secret://env/GITHUB_SECRET"
}
webhook "payments" {
    path     "/hooks/stripe"
    provider stripe
    secret   "secret://env/GITHUB_SECRET"
}
webhook "linear" {
    path     "/hooks/linear"
    provider linear
    secret   "secret://env/GITHUB_SECRET"
}
webhook "calls" {
    path       "/hooks/twilio"
    provider   twilio
    public_url "https://hooks.example.com/hooks/twilio"
    secret     "secret://env/GITHUB_SECRET"
}
webhook "tickets" {
    path     "/hooks/typeform"
    provider typeform
    secret   "secret://env/GITHUB_SECRET"
}
webhook "commands" {
    path     "/hooks/discord"
    provider discord
    secret   "secret://env/DISCORD_KEY"
}
"""
PUBLIC_KEY = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"  # RFC 8032 section 7.1, test 1


def test_samples_are_accepted_and_each_is_a_new_delivery(tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM)
    with running(tmp_path, "program", DISCORD_KEY=PUBLIC_KEY) as daemon:
        for name, event in (
            ("github-events", "push"),
            ("payments", "invoice.paid"),
            ("linear", "Issue.update"),
            ("calls", "received"),
        ):
            done = daemon.symbi("webhook", "trigger", name, "--event", event)
            assert done.returncode == 0, done.stdout + done.stderr
            assert f"({event}, " in done.stdout
            # Some senders require an empty 200.
            assert done.stdout.splitlines()[1] in {"202 Accepted", "200 OK"}
        many = daemon.symbi("webhook", "trigger", "payments", "--count", "5", "--rate", "50", "--json")
        assert json.loads(many.stdout) == {"sent": 5, "answers": {"202": 5}}
        made_up = daemon.symbi("webhook", "trigger", "tickets", "--event", "form_response")
        assert made_up.returncode == 0
        assert "there are no samples for typeform" in made_up.stderr
        rows = daemon.attempts("--limit", "100")
        assert len({row["delivery_id"] for row in rows}) == len(rows) == 10
        assert [row["event"] for row in rows[:2]] == ["push", "invoice.paid"]

        twice = [
            daemon.symbi("webhook", "trigger", "github-events", "--delivery-id", "one", "--json") for _ in range(2)
        ]
        assert len({json.loads(each.stdout)["answer"]["delivery_id"] for each in twice}) == 1

        only_theirs = daemon.symbi("webhook", "trigger", "commands")
        assert only_theirs.returncode == 1
        assert only_theirs.stderr.startswith("symbi: the webhook commands (discord) cannot be tested: ")
        assert only_theirs.stderr.count("\n") == 1

        unknown = daemon.symbi("webhook", "trigger", "payments", "--event", "invoice.payed")
        assert unknown.returncode == 2
        assert "did you mean invoice.paid" in unknown.stderr

        listed = daemon.symbi("webhook", "trigger", "linear", "--list", "--json")
        assert json.loads(listed.stdout)["samples"][0]["events"][0] == "Issue.create"
        assert daemon.symbi("webhook", "trigger", "payment").returncode == 2
        assert daemon.symbi("webhook", "trigger").returncode == 2
    stopped = daemon.symbi("webhook", "trigger", "payments", DISCORD_KEY=PUBLIC_KEY)
    assert stopped.returncode == 1
    assert "no daemon is running" in stopped.stderr
