"""`symbi webhook providers` describes each sender, without a root or a daemon."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runtime.webhooks.providers import PROVIDERS
from tests.runtime.daemon.running import symbi


def test_every_sender_is_listed(tmp_path: Path) -> None:
    done = symbi("webhook", "providers", root=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()[2:]] == sorted(PROVIDERS)
    as_json = json.loads(symbi("webhook", "providers", "--json", root=tmp_path).stdout)["providers"]
    assert [each["name"] for each in as_json] == sorted(PROVIDERS)
    for each in as_json:
        row = PROVIDERS[each["name"]]
        assert each["doc_url"] == row.doc_url
        assert each["tolerance"] == row.scheme.tolerance
        assert (each["secret"] is None) == row.keyless
        assert (each["handshake"] is None) == (row.handshake is None)
        assert each["proof"]
    assert not list(tmp_path.iterdir())


def test_one_of_them_is_told_of_wholly(tmp_path: Path) -> None:
    done = symbi("webhook", "providers", "zoom", root=tmp_path)
    assert done.returncode == 0, done.stderr
    told = dict(line.split("  ", 1) for line in done.stdout.splitlines())
    assert {name: text.strip() for name, text in told.items()} == {
        "provider": "zoom",
        "sender": "Zoom",
        "about": "Events of a Zoom app. The secret is the app's secret token.",
        "proof": "HMAC-SHA256, hex, of `v0:{timestamp}:{body}`",
        "in": "`X-Zm-Signature`, `X-Zm-Request-Timestamp`",
        "secret": "the key is its text",
        "time": "signed; valid for 5 minutes before and after",
        "body": "at most 1 MiB",
        "event": "`$.event`",
        "identified by": "the body's SHA-256, and the signature",
        "handshake": "POST of `$.event` `endpoint.url_validation`: the HMAC of `$.payload.plainToken` (signed)",
        "options": "none",
        "see": "https://developers.zoom.us/docs/api/webhooks/",
    }


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Githb", "did you mean github?"),
        ("WhatsApp", "did you mean meta?"),
        ("asana", "not supported"),
        ("qqqq", "lists them"),
        ("", "lists them"),
    ],
)
def test_a_sender_that_is_not_known_is_an_error_with_what_to_do(tmp_path: Path, name: str, hint: str) -> None:
    done = symbi("webhook", "providers", name, root=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert hint in done.stderr
