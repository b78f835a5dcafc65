from __future__ import annotations

import pytest

from runtime.webhooks.providers import PROVIDERS
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.schemes.hmac import Hmac
from runtime.webhooks.schemes.secret_prefix import SecretPrefixScheme
from runtime.webhooks.schemes.token import Token
from tests.signatures import prepare, sign, verify

NOW = 1_700_000_000
BODY = b'{"object_kind":"push"}'
SIGNING, TOKEN = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "gl-token-value"


def sent(secret: str) -> list[tuple[str, str]]:
    return sign("gitlab", secret, BODY, now=NOW, delivery_id="d1", event="Push Hook")


def test_the_secret_decides_how_requests_are_verified() -> None:
    assert isinstance(prepare("gitlab", [TOKEN]).provider.scheme, Token)
    assert isinstance(prepare("gitlab", [SIGNING]).provider.scheme, Hmac)
    assert prepare("gitlab", [TOKEN]).tolerance is None
    assert prepare("gitlab", [SIGNING]).tolerance == 300


def test_a_request_never_chooses_the_weaker_way() -> None:
    with pytest.raises(RefusedRequest, match="missing_signature"):
        verify("gitlab", [SIGNING], [("X-Gitlab-Token", SIGNING)], BODY, now=NOW)
    with pytest.raises(RefusedRequest, match="missing_signature"):
        verify("gitlab", [TOKEN], sent(SIGNING), BODY, now=NOW)
    both = [*sent(SIGNING), ("X-Gitlab-Token", SIGNING)]
    with pytest.raises(RefusedRequest, match="signature_mismatch"):
        verify("gitlab", [SIGNING], both, BODY + b" ", now=NOW)


def test_while_one_is_changed_for_the_other_each_is_taken_with_its_own() -> None:
    secrets = [TOKEN, SIGNING]
    assert isinstance(prepare("gitlab", secrets).provider.scheme, SecretPrefixScheme)
    assert verify("gitlab", secrets, sent(TOKEN), BODY, now=NOW).secret_index == 0
    assert verify("gitlab", secrets, sent(SIGNING), BODY, now=NOW).secret_index == 1
    with pytest.raises(RefusedRequest, match="signature_mismatch"):
        verify("gitlab", secrets, sent("another token"), BODY, now=NOW)
    with pytest.raises(RefusedRequest, match="missing_signature"):
        verify("gitlab", secrets, [], BODY, now=NOW)


def test_only_what_every_way_covers_counts_as_signed() -> None:
    assert PROVIDERS["gitlab"].signed == ()
    assert "body" in PROVIDERS["gitlab-signing"].signed
    assert set(PROVIDERS["standard-webhooks"].signed) == {"id", "timestamp", "body"}


def test_a_secret_of_the_wrong_form_for_its_prefix_is_an_error() -> None:
    with pytest.raises(ValueError, match="not base64"):
        prepare("gitlab", ["whsec_not base64!"])
