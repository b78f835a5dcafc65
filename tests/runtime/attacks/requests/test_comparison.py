"""Every secret is compared, whichever matches, so that the time of a refusal reveals nothing about them."""

from __future__ import annotations

import hmac

import pytest

from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.schemes.basic import Basic
from runtime.webhooks.schemes.hmac import Hmac
from runtime.webhooks.schemes.jwt import Jwt
from runtime.webhooks.schemes.token import BodyToken, Token
from tests.contracts.provider_cases import CASES, Case, label

SHARED = [
    case
    for case in CASES
    if not case.row.keyless
    and (
        isinstance(case.row.scheme, Hmac | Basic | Token | BodyToken)
        or (isinstance(case.row.scheme, Jwt) and case.row.scheme.algorithms[0].startswith("HS"))
    )
]


@pytest.mark.parametrize("case", SHARED, ids=label)
def test_as_much_is_compared_whichever_secret_matches(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[bool] = []
    compare = hmac.compare_digest

    def counted(one: bytes, other: bytes) -> bool:
        calls.append(True)
        return compare(one, other)

    monkeypatch.setattr(hmac, "compare_digest", counted)
    headers, body = case.sent()
    counts: list[int] = []
    for secrets, found in (
        ((case.secret, case.other, case.other), 0),
        ((case.other, case.secret, case.other), 1),
        ((case.other, case.other, case.secret), 2),
        ((case.other, case.other, case.other), None),
    ):
        calls.clear()
        if found is None:
            with pytest.raises(RefusedRequest):
                case.verify(headers, body, secrets=secrets)
        else:
            assert case.verify(headers, body, secrets=secrets).secret_index == found
        counts.append(len(calls))
    *matched, refused = counts
    assert refused >= 3
    assert len(set(matched)) == 1
    # The claims of a valid token are checked as well.
    assert isinstance(case.row.scheme, Jwt) or refused == matched[0]


def test_there_are_such_schemes() -> None:
    assert {type(case.row.scheme) for case in SHARED} >= {Hmac, Basic, Token, Jwt}
