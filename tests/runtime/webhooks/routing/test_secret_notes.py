"""Secrets that are mounted as they are, and probably are not what the sender has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dslc.blocks.variant import Variant
from dslc.blocks.webhook import Webhook
from runtime.secrets.secret import Secret
from runtime.webhooks.routing.route import build_route
from tests.runtime.daemon.running import running, write_program


def notes(provider: str, value: bytes) -> tuple[str, ...]:
    webhook = Webhook(name="w", path="/w", provider=Variant(name=provider))
    mounted = build_route(webhook, origin="x", secrets=[Secret(value, "env S")], problem=None)
    assert mounted.route is not None, mounted.problem
    return mounted.notes


@pytest.mark.parametrize("value", [b"x\n", b" x", b"x ", b"x\r\n\r\n", b"\xef\xbb\xbfx", b"\tx"])
def test_a_key_of_text_with_blanks_or_a_mark_at_its_ends_is_noted_without_its_value(value: bytes) -> None:
    (note,) = notes("github", value)
    assert note == "env S: it begins or ends with white space or a byte-order mark, a part of the key"


def test_what_is_no_part_of_the_key_is_not_noted() -> None:
    assert notes("github", b"two words") == ()
    assert notes("svix", b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n") == ()
    assert notes("gitlab", b"token\n") == ()


def test_readiness_and_the_list_name_the_secret_beside_a_webhook_that_is_not_mounted(tmp_path: Path) -> None:
    write_program(tmp_path)
    write_program(tmp_path, 'webhook other { path "/other" secret "secret://env/UNSET_HERE" }', "other.symbiont")
    with running(tmp_path, "program", GITHUB_SECRET="hunter2-of-github\n") as daemon:
        ready = json.loads(daemon.symbi("readiness", "--json").stdout)
        (check,) = [each for each in ready["checks"] if each["check"] == "webhooks"]
        assert check["status"] == "RED"
        assert "not mounted: other: " in check["text"]
        assert "env GITHUB_SECRET: it begins or ends with white space" in check["text"]
        listed = daemon.symbi("webhook", "list", "--json").stdout
        assert "white space" in listed
        assert "hunter2" not in listed + json.dumps(ready)
