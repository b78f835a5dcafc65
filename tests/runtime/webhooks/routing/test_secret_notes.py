"""Secrets that are mounted as they are, and probably are not what the sender has."""

from __future__ import annotations

import pytest

from dslc.blocks.variant import Variant
from dslc.blocks.webhook import Webhook
from runtime.secrets.secret import Secret
from runtime.webhooks.routing.route import build_route


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
