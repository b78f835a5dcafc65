"""Errors of pydantic-ai and of the providers' libraries as those of models, without their texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from pydantic_ai.exceptions import (
    ContentFilterError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestTimeout,
    ModelServerError,
    ModelTimeoutError,
    ModelUnavailableError,
)

from runtime.errors import SymbiontError
from runtime.models.model import AccessRefused, ModelRefused, ModelUnavailable, NoSuchModel, WindowExceeded
from runtime.models.window_errors import exceeds_window
from runtime.outbound.bounded_client import TooLarge
from runtime.outbound.http import LARGEST_ANSWER, explanation, may_pass

# Amazon's library does not compare an answer with its announced length: one that broke off is only incomplete.
_LENGTH_UNCHECKED = frozenset({"bedrock"})
_PASSING = (ModelRateLimitError, ModelUnavailableError, ModelServerError)


class Asked(NamedTuple):
    """Whom a question went to: the row, its model, the host as shown, and what no message may contain."""

    row: str
    model: str
    host: str
    seconds: float
    secrets: Mapping[str, str]


def error_of(error: Exception, asked: Asked) -> SymbiontError:
    """Return the error for a failed question."""
    detail = _detail(error, asked)
    status = getattr(error, "status_code", None)
    if status != 429 and (isinstance(error, ModelContextWindowExceededError) or exceeds_window(detail)):
        message = f"the request is larger than the window of {asked.model} at {asked.host}"
        return WindowExceeded(f"{message}: {detail}" if detail else message)
    answered = f"{asked.host} answered {status}" if status else f"{asked.host} answered with an error"
    answered = f"{answered}: {detail}" if detail else answered
    return _absence(error, asked, status, answered) or _refusal(error, asked, status, answered)


def _absence(error: Exception, asked: Asked, status: object, answered: str) -> ModelUnavailable | None:
    """Return the error if the same question may be answered later."""
    if isinstance(error, ModelRequestTimeout | ModelTimeoutError):
        return _unavailable(asked, f"{asked.host} did not answer within {asked.seconds:g} s", maybe_done=True)
    if isinstance(error, ModelConnectionError) and not _is_too_large(error):
        if error.phase == "connect":
            return _unavailable(asked, f"{asked.host} cannot be reached", hint="check that it is running")
        return _unavailable(asked, f"{asked.host} closed the connection", maybe_done=True)
    if type(error) is ModelAPIError and asked.row in _LENGTH_UNCHECKED:
        return _unavailable(asked, f"{asked.host} sent an incomplete answer", maybe_done=True)
    if isinstance(error, _PASSING) or (isinstance(status, int) and may_pass(status)):
        return _unavailable(asked, answered, retry_after=getattr(error, "retry_after", None))
    return None


def _refusal(error: Exception, asked: Asked, status: object, answered: str) -> ModelRefused:
    """Return the error that a person must correct."""
    match error:
        case _ if _is_too_large(error):
            return _refused(asked, f"{asked.host} answered more than {LARGEST_ANSWER} bytes", "check the URL")
        case ModelAuthenticationError():
            message = f"{asked.host} does not accept the key of the model {asked.row}"
            message = f"{message} (it answered {status})" if status else message
            return AccessRefused(message, hint=f"check that the key is valid and may use {asked.model}")
        case ModelNotFoundError():
            return NoSuchModel(f"{asked.host} has no model {asked.model}", hint="check `model` and `url`")
        case ModelQuotaExceededError():
            return _refused(asked, answered, "the account's quota is used up")
        case ModelHTTPError():
            return _refused(asked, answered, error.hint)
        case ContentFilterError():
            return _refused(asked, f"{asked.host} withheld the answer", None)
    return not_text(asked)


def not_text(asked: Asked) -> ModelRefused:
    """Return the error for an answer that is no reply."""
    refusal = ModelRefused(
        f"the model {asked.row} got an answer from {asked.host} that is not text", hint="check the URL"
    )
    refusal.maybe_done = True
    return refusal


def _unavailable(
    asked: Asked,
    reason: str,
    *,
    hint: str | None = None,
    retry_after: float | None = None,
    maybe_done: bool = False,
) -> ModelUnavailable:
    error = ModelUnavailable(f"the model {asked.row} is unavailable: {reason}", hint=hint, retry_after=retry_after)
    error.maybe_done = maybe_done
    return error


def _refused(asked: Asked, reason: str, hint: str | None) -> ModelRefused:
    return ModelRefused(f"the model {asked.row} is refused: {reason}", hint=hint)


def _is_too_large(error: BaseException) -> bool:
    return any(isinstance(each, TooLarge) for each in _causes(error))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _detail(error: Exception, asked: Asked) -> str:
    """Return the provider's own explanation in one line, without secrets; empty for a key that it does not accept."""
    body: Any = getattr(error, "body", None)
    if isinstance(error, ModelAuthenticationError) or body is None:
        return ""
    if isinstance(body, str | bytes):
        try:
            body = msgspec.json.decode(body)
        except (ValueError, RecursionError):
            return ""
    return explanation(_lower(body), asked.secrets)


def _lower(body: Any) -> Any:
    # Amazon's names begin with capitals.
    return {str(key).lower(): _lower(value) for key, value in body.items()} if isinstance(body, dict) else body
