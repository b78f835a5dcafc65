from __future__ import annotations

import pytest

from runtime.webhooks.request.headers import Headers
from runtime.webhooks.request.refusal import RefusedRequest


def test_a_name_is_found_in_any_case_and_its_value_trimmed() -> None:
    headers = Headers([("X-Sig", " \tabc\t"), ("Other", "1")])
    assert headers.get("x-sig") == "abc"
    assert headers.one("x-sig", repeated="ambiguous_header") == "abc"
    assert headers.get("x-none") is None


def test_a_repeated_name_is_refused_where_only_one_may_be() -> None:
    headers = Headers([("X-Sig", "a"), ("x-SIG", "a")])
    assert headers.get("x-sig") == "a"
    with pytest.raises(RefusedRequest, match="ambiguous_signature"):
        headers.one("x-sig", repeated="ambiguous_signature")


def test_a_letter_that_only_lowers_to_ascii_is_no_header_name() -> None:
    assert Headers([("X-To\u212aen", "a")]).get("x-token") is None


def test_pairs_are_kept_as_received() -> None:
    pairs = [("B", " 1"), ("a", "2"), ("B", "3")]
    assert Headers(pairs).pairs == tuple(pairs)
