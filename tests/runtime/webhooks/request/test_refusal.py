from __future__ import annotations

import pytest

from runtime.webhooks.request.refusal import REASONS, RefusedRequest


@pytest.mark.parametrize("reason", REASONS)
def test_each_reason_is_a_client_or_server_error_with_a_sentence(reason: str) -> None:
    refused = RefusedRequest(reason)
    assert 400 <= refused.status < 600
    assert refused.reason == reason
    assert refused.message
    assert refused.message[0].islower()


def test_an_unknown_reason_is_a_mistake_of_ours() -> None:
    with pytest.raises(KeyError):
        RefusedRequest("nope")
