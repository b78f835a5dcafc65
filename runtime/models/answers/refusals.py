"""Meanings of the errors of services, by their codes and words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from runtime.models.model import AccessRefused, ModelRefused, NoSuchModel, RequestRefused
from runtime.models.request import Reply
from runtime.outbound.http import may_pass

NOT_ACCEPTED: Final = frozenset({400, 422, 500, 501})
"""Statuses with which services refuse a part of a request."""
_CLOSED: Final = frozenset({401, 403})
_OF_CONTENT: Final = frozenset({400, 422, 451, 498})
"""Statuses with which services refuse what a request says; Cohere has one of its own for that."""
_GENERATION: Final = frozenset({"tool_use_failed", "json_validate_failed"})
"""Codes of Groq: the model wrote a reply that does not keep to the tools or to the schema."""
_NO_CALL: Final = re.compile(r"invalid sequence as part of tooluse", re.IGNORECASE)
"""Words of Amazon's models on Bedrock for a call that is not valid."""
_INVALID: Final = frozenset({"invalid_request_error", "invalid_argument", "bad_request", "context_length_exceeded"})
"""Codes and types of errors in an answer with a status of success that another try gets again."""
_MODERATED: Final = re.compile(
    r"moderation|\bflagged\b|content[ _-]?(?:filter|policy|management|exists risk)|responsible ai"
    r"|safety (?:system|filter)|data_inspection_failed|inappropriate content|sensitive (?:content|words?)"
    r"|prohibited[ _](?:content|use)",
    re.IGNORECASE,
)
_KEY: Final = re.compile(
    r"api[ _-]?key|credit balance|billing|insufficient (?:balance|credits|quota|funds)|\barrears?\b"
    r"|location is not supported",
    re.IGNORECASE,
)
_MODEL: Final = re.compile(
    r"model_not_found|model identifier is invalid|(?:not a valid|unknown|invalid|no such) model\b"
    r"|\bmodel\b.{0,80}(?:not found|not exist|decommissioned)",
    re.IGNORECASE,
)


def error_in(answer: Any) -> Any:
    """Return the error that is in an answer with a status of success; None if there is none."""
    if not isinstance(answer, dict) or answer.get("choices"):
        return answer["error"] if isinstance(answer, dict) and answer.get("error") else None
    if answer.get("error"):
        return answer["error"]
    # MiniMax; vLLM before 0.10; Z.ai, DashScope and Cloudflare.
    base = answer.get("base_resp")
    if isinstance(base, dict) and base.get("status_code"):
        return base
    says = any(isinstance(answer.get(key), str) and answer[key] for key in ("message", "msg"))
    if says and (answer.get("object") == "error" or answer.get("code") or answer.get("success") is False):
        return answer
    return answer["errors"] if answer.get("success") is False and answer.get("errors") else None


def status_in(error: Any) -> int | None:
    """Return the status of HTTP that an error in an answer says or means; None if it is not known."""
    if not isinstance(error, Mapping):
        return None
    for code in (error.get("code"), error.get("status"), error.get("status_code")):
        number = int(code) if isinstance(code, str) and code.isdecimal() and len(code) == 3 else code
        if isinstance(number, int) and 400 <= number < 600:
            return number
    words = {str(error.get(key)).lower() for key in ("code", "type", "status")}
    return 400 if words & _INVALID else None


def malformed_reply(answer: Any, detail: str) -> Reply | None:
    """Return the reply of the model that a service refused because it does not keep to the tools or to the schema; its
    text may be empty. None if the service refused something else. `detail`: its explanation."""
    if _NO_CALL.search(detail):
        return Reply(text="", finish="malformed")
    error = answer.get("error", answer) if isinstance(answer, dict) else None
    if not isinstance(error, dict) or not (error.get("code") in _GENERATION or "failed_generation" in error):
        return None
    given = error.get("failed_generation")
    return Reply(text=given if isinstance(given, str) else "", finish="malformed")


def refuses_key(detail: str) -> bool:
    """True if a refusal with a status of another meaning is about the key or the account."""
    return _KEY.search(detail) is not None


def is_moderated(detail: str) -> bool:
    """True if a filter of contents refused a request, or withheld its answer."""
    return _MODERATED.search(detail) is not None


def refuses_content(status: int | None, detail: str) -> bool:
    """True if a refusal is about what the request says: another one may be answered."""
    passing = status is not None and status != 500 and may_pass(status)
    return status in _OF_CONTENT or (not passing and is_moderated(detail))


def kind_of(status: int | None, detail: str, reason: str, *, no_model: bool = False) -> type[ModelRefused]:
    """Return the kind of a permanent refusal. `detail`: the explanation, empty where it may contain a key. `reason`:
    the whole explanation. `no_model`: the status means that there is no such model."""
    if no_model or (status in NOT_ACCEPTED and _MODEL.search(detail)):
        return NoSuchModel
    if is_moderated(reason):
        # OpenRouter answers 403, as for a key that may not use the model.
        return RequestRefused
    if status in _CLOSED or refuses_key(detail):
        return AccessRefused
    return RequestRefused if refuses_content(status, detail) else ModelRefused
