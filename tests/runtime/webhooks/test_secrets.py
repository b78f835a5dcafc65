"""Secrets of webhooks: their keys, the scheme that they choose, their end, and what is unusual about them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dslc.blocks.variant import Variant
from dslc.blocks.webhook import Webhook
from runtime.secrets.secret import Secret
from runtime.webhooks.keys.shared_secret import all_secret_bytes, base64_key, hex_key, secret_bytes, text_key
from runtime.webhooks.providers import PROVIDERS
from runtime.webhooks.request.headers import Headers
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.request.request import WebhookRequest
from runtime.webhooks.routing.route import build_route
from runtime.webhooks.schemes.hmac import Hmac
from runtime.webhooks.schemes.secret_prefix import SecretPrefixScheme
from runtime.webhooks.schemes.token import Token
from runtime.webhooks.verification import index_secrets
from tests.signatures import prepare, sign, verify


def test_text_bytes_and_secrets_are_the_same_key() -> None:
    assert secret_bytes("kéy") == secret_bytes("kéy".encode()) == secret_bytes(Secret("kéy".encode(), "test"))


def test_white_space_around_a_secret_belongs_to_it() -> None:
    assert secret_bytes(" key\n") == b" key\n"


@pytest.mark.parametrize("blank", ["", " ", "\n", "\u00a0\u3000", b"\x00" * 32, Secret(b"", "test")])
def test_a_blank_secret_is_no_key(blank: str | bytes | Secret) -> None:
    with pytest.raises(ValueError, match="empty or blank"):
        all_secret_bytes(["good", blank])


def test_no_secrets_are_an_error() -> None:
    with pytest.raises(ValueError, match="there is no secret"):
        all_secret_bytes([])


def test_a_secret_says_how_its_key_is_written() -> None:
    assert text_key(b"whsec_a") == b"whsec_a"
    assert base64_key(b"whsec_a2V5") == base64_key(b"a2V5\n") == b"key"
    assert hex_key(b"6B6579") == b"key"


@pytest.mark.parametrize("secret", [b"whsec_", b"AAAA", b"a2V", b"whsec_a2V5!", b"secret value"])
def test_what_is_no_base64_key_is_an_error_that_does_not_show_it(secret: bytes) -> None:
    with pytest.raises(ValueError, match="the secret is") as caught:
        base64_key(secret)
    assert secret.decode() not in str(caught.value)


@pytest.mark.parametrize("secret", [b"", b"0", b"zz", b"0000"])
def test_what_is_no_hexadecimal_key_is_an_error(secret: bytes) -> None:
    with pytest.raises(ValueError, match="the secret is"):
        hex_key(secret)


NOW = 1_700_000_000
PUSH = b'{"object_kind":"push"}'
SIGNING, TOKEN = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "gl-token-value"


def sent(secret: str) -> list[tuple[str, str]]:
    return sign("gitlab", secret, PUSH, now=NOW, delivery_id="d1", event="Push Hook")


def test_the_secret_decides_how_requests_are_verified() -> None:
    assert isinstance(prepare("gitlab", [TOKEN]).provider.scheme, Token)
    assert isinstance(prepare("gitlab", [SIGNING]).provider.scheme, Hmac)
    assert prepare("gitlab", [TOKEN]).tolerance is None
    assert prepare("gitlab", [SIGNING]).tolerance == 300


def test_a_request_never_chooses_the_weaker_way() -> None:
    with pytest.raises(RefusedRequest, match="missing_signature"):
        verify("gitlab", [SIGNING], [("X-Gitlab-Token", SIGNING)], PUSH, now=NOW)
    with pytest.raises(RefusedRequest, match="missing_signature"):
        verify("gitlab", [TOKEN], sent(SIGNING), PUSH, now=NOW)
    both = [*sent(SIGNING), ("X-Gitlab-Token", SIGNING)]
    with pytest.raises(RefusedRequest, match="signature_mismatch"):
        verify("gitlab", [SIGNING], both, PUSH + b" ", now=NOW)


def test_while_one_is_changed_for_the_other_each_is_taken_with_its_own() -> None:
    secrets = [TOKEN, SIGNING]
    assert isinstance(prepare("gitlab", secrets).provider.scheme, SecretPrefixScheme)
    assert verify("gitlab", secrets, sent(TOKEN), PUSH, now=NOW).secret_index == 0
    assert verify("gitlab", secrets, sent(SIGNING), PUSH, now=NOW).secret_index == 1
    with pytest.raises(RefusedRequest, match="signature_mismatch"):
        verify("gitlab", secrets, sent("another token"), PUSH, now=NOW)
    with pytest.raises(RefusedRequest, match="missing_signature"):
        verify("gitlab", secrets, [], PUSH, now=NOW)


def test_only_what_every_way_covers_counts_as_signed() -> None:
    assert PROVIDERS["gitlab"].signed == ()
    assert "body" in PROVIDERS["gitlab-signing"].signed
    assert set(PROVIDERS["standard-webhooks"].signed) == {"id", "timestamp", "body"}


def test_a_secret_of_the_wrong_form_for_its_prefix_is_an_error() -> None:
    with pytest.raises(ValueError, match="not base64"):
        prepare("gitlab", ["whsec_not base64!"])


MOMENTS = st.one_of(st.none(), st.integers(1, 6).map(float))


def secret(name: str, until: float | None = None, previous: Secret | None = None) -> Secret:
    return Secret(name.encode(), name, until=until, previous=previous)


def matches(secrets: list[Secret], key: Secret, now: float, places: list[int] | None = None) -> int | None:
    headers = Headers(sign("github", key, b"{}", now=now, delivery_id="1", event="push"))
    try:
        return prepare("github", secrets, places=places).check(WebhookRequest(headers, b"{}"), now).secret_index
    except RefusedRequest:
        return None


@settings(deadline=None)
@given(untils=st.lists(MOMENTS, min_size=1, max_size=5), now=st.floats(0, 7), data=st.data())
def test_exactly_the_good_ones_verify_each_under_its_own_number(
    untils: list[float | None], now: float, data: st.DataObject
) -> None:
    untils = [None, *untils]
    secrets = [secret(f"key-{at}", until) for at, until in enumerate(untils)]
    places = data.draw(st.permutations(range(len(secrets))))
    for at, each in enumerate(secrets):
        until = untils[at]
        good = until is None or now < until
        assert matches(secrets, each, now) == (at if good else None)
        assert matches(secrets, each, now, list(places)) == (places[at] if good else None)


def test_the_moment_itself_is_too_late() -> None:
    secrets = [secret("new"), secret("old", 100.0)]
    assert matches(secrets, secrets[1], 99.999) == 1
    assert matches(secrets, secrets[1], 100.0) is None
    assert matches(secrets, secrets[0], 100.0) == 0


def test_one_prepared_check_follows_the_clock_there_and_back() -> None:
    new, old = secret("new"), secret("old", 100.0)
    check = prepare("github", [new, old]).check
    request = WebhookRequest(Headers(sign("github", old, b"{}", now=0, delivery_id="1", event="push")), b"{}")
    assert check(request, 50.0).secret_index == 1
    with pytest.raises(RefusedRequest):
        check(request, 150.0)
    assert check(request, 50.0).secret_index == 1


def test_secrets_that_all_end_are_no_secrets() -> None:
    with pytest.raises(ValueError, match="every secret ends"):
        prepare("github", [secret("a", 1.0), secret("b", 2.0)])


def test_a_secret_keeps_its_number_when_another_cannot_be_resolved() -> None:
    before = secret("before", 10.0)
    there = secret("there", previous=before)
    assert index_secrets(["the variable A is not set", there]) == ((there, before), (1, 2))
    assert index_secrets([there, "gone", secret("x")]).places == (0, 2, 3)
    assert index_secrets(["gone"]) == ((), ())


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
