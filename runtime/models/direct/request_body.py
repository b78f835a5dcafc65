"""Requests of the providers' libraries before they are sent: with the fields of the program, and room for thinking."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from runtime.models.options import merged

_LEAST_BUDGET: Final = 1024
"""Tokens of thinking that Claude takes as a budget at least."""


def request_body(content: bytes, extra: Mapping[str, Any]) -> bytes:
    """Return the JSON of a request as it is sent; other content as it is. `extra`: fields of the program."""
    if content[:1] != b"{":
        return content
    body = msgspec.json.decode(content)
    _fit_thinking(body)
    return msgspec.json.encode(merged(body, extra))


def _fit_thinking(body: dict[str, Any]) -> None:
    """Claude refuses a budget that is not below the limit of the reply, and a temperature beside it, also on Bedrock:
    https://platform.claude.com/docs/en/build-with-claude/extended-thinking. The budget is at most half of the limit; a
    reply that is too short for that is made without thinking."""
    fields, limits = body.get("additionalModelRequestFields", body), body.get("inferenceConfig", body)
    thinking, most = fields.get("thinking"), limits.get("max_tokens", limits.get("maxTokens"))
    if not isinstance(thinking, dict) or "budget_tokens" not in thinking or not isinstance(most, int):
        return
    budget = min(thinking["budget_tokens"], most // 2)
    if budget < _LEAST_BUDGET:
        del fields["thinking"]
        return
    thinking["budget_tokens"] = budget
    limits.pop("temperature", None)
