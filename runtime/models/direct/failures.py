"""Errors of pydantic-ai and of the providers' libraries as those of models, without their texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from pydantic_ai.exceptions import (
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
from pydantic_ai.messages import ModelResponse, TextPart

from dslc.blocks.values.quantity import format_duration
from runtime.errors import SymbiontError
from runtime.models.answers.refusals import is_moderated, kind_of, malformed_reply
from runtime.models.model import (
    AccessRefused,
    ModelRefused,
    ModelUnavailable,
    NoSuchModel,
    RequestRefused,
    WindowExceeded,
)
from runtime.models.request import Reply
from runtime.models.window_errors import exceeds_window
from runtime.outbound.bounded_client import CompressedAnswer, TooLarge
from runtime.outbound.http import LARGEST_ANSWER, explanation, may_pass, one_line

# Amazon's library does not compare an answer with its announced length: one that broke off is only incomplete.
_LENGTH_UNCHECKED = frozenset({"bedrock"})
_PASSING = (ModelRateLimitError, ModelUnavailableError, ModelServerError)


class Service(NamedTuple):
    """The service of a question: the row, its model, the host as shown, and the texts that no message may contain."""

    row: str
    model: str
    host: str
    seconds: float
    secrets: Mapping[str, str]


def error_of(error: Exception, service: Service) -> SymbiontError:
    """Return the error for a failed question."""
    status = getattr(error, "status_code", None)
    reason = _explanation(error, service)
    # The explanation of a key that is not accepted may contain a part of it.
    detail = "" if isinstance(error, ModelAuthenticationError) else reason
    if exceeds_window(detail, status) or (status != 429 and isinstance(error, ModelContextWindowExceededError)):
        message = f"the request is larger than the window of {service.model} at {service.host}"
        return WindowExceeded(f"{message}: {detail}" if detail else message)
    answer = f"{service.host} answered {status}" if status else f"{service.host} answered with an error"
    answer = f"{answer}: {detail}" if detail else answer
    return _temporary_error(error, service, status, answer) or _permanent_error(error, service, answer, detail, reason)


def malformed_in(error: Exception, service: Service) -> Reply | None:
    """Return the reply that a failed question had all the same, because the model wrote no valid calls."""
    return malformed_reply(getattr(error, "body", None), _explanation(error, service))


def refusal_in(response: ModelResponse, service: Service) -> RequestRefused | None:
    """Return the error for an answer that says that its request is refused, and that every later one with the same
    messages is."""
    details = response.provider_details or {}
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    match details:
        case {"block_reason": reason}:
            # Gemini's filter of prompts.
            words = details.get("block_reason_message") or reason
        case {"finish_reason": "refusal"}:
            # https://platform.claude.com/docs/en/test-and-evaluate/strengthen-guardrails/handle-streaming-refusals
            words = details.get("refusal") or details.get("refusal_category") or "a policy"
        case {"finish_reason": "guardrail_intervened"}:
            # On Bedrock the text is that of the guardrail.
            words = text or "a guardrail"
        case _:
            return None
    refusal = RequestRefused(f"{service.host} refuses what the request says: {one_line(str(words), service.secrets)}")
    refusal.maybe_done = True
    return refusal


def _temporary_error(error: Exception, service: Service, status: object, answer: str) -> ModelUnavailable | None:
    """Return the error if the same question may be answered later."""
    if isinstance(error, ModelRequestTimeout | ModelTimeoutError):
        return unavailable(
            service, f"{service.host} did not answer within {format_duration(service.seconds)}", maybe_done=True
        )
    if isinstance(error, ModelConnectionError) and not _is_caused_by(error, TooLarge, CompressedAnswer):
        if error.phase == "connect":
            return unavailable(service, f"{service.host} cannot be reached", hint="check that it is running")
        return unavailable(service, f"{service.host} closed the connection", maybe_done=True)
    if type(error) is ModelAPIError and service.row in _LENGTH_UNCHECKED:
        return unavailable(service, f"{service.host} sent an incomplete answer", maybe_done=True)
    if isinstance(error, _PASSING) or (isinstance(status, int) and may_pass(status)):
        return unavailable(service, answer, retry_after=getattr(error, "retry_after", None))
    return None


def _permanent_error(error: Exception, service: Service, answer: str, detail: str, reason: str) -> ModelRefused:
    """Return the error that a person must correct, or that is about what this request says."""
    status = getattr(error, "status_code", None)
    if _is_caused_by(error, CompressedAnswer):
        return _refusal(service, f"{service.host} sent a compressed answer, which was not requested", "check the URL")
    if _is_caused_by(error, TooLarge):
        return _refusal(service, f"{service.host} answered more than {LARGEST_ANSWER} bytes", "check the URL")
    kind = kind_of(status, detail, reason, no_model=isinstance(error, ModelNotFoundError))
    if issubclass(kind, RequestRefused) and is_moderated(reason):
        return kind(f"{service.host} refuses what the request says: {reason}")
    match error:
        case ModelAuthenticationError():
            message = f"{service.host} does not accept the key of the model {service.row}"
            message = f"{message} (it answered {status})" if status else message
            return AccessRefused(message, hint=f"check that the key is valid and may use {service.model}")
        case ModelNotFoundError():
            return NoSuchModel(f"{service.host} has no model {service.model}", hint="check `model` and `url`")
        case ModelQuotaExceededError():
            return _refusal(service, answer, "the account's quota is used up", AccessRefused)
        case ModelHTTPError():
            return _refusal(service, answer, error.hint, kind)
    return not_text(service)


def not_text(service: Service) -> ModelRefused:
    """Return the error for an answer that is no reply."""
    refusal = ModelRefused(
        f"the model {service.row} got an answer from {service.host} that is not text", hint="check the URL"
    )
    refusal.maybe_done = True
    return refusal


def unavailable(
    service: Service,
    reason: str,
    *,
    hint: str | None = None,
    retry_after: float | None = None,
    maybe_done: bool = False,
) -> ModelUnavailable:
    """Return the error for a question that may be answered later."""
    error = ModelUnavailable(f"the model {service.row} is unavailable: {reason}", hint=hint, retry_after=retry_after)
    error.maybe_done = maybe_done
    return error


def _refusal(service: Service, reason: str, hint: str | None, kind: type[ModelRefused] = ModelRefused) -> ModelRefused:
    return kind(f"the model {service.row} is refused: {reason}", hint=hint)


def _is_caused_by(error: BaseException, *kinds: type[Exception]) -> bool:
    return any(isinstance(each, kinds) for each in _causes(error))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _explanation(error: Exception, service: Service) -> str:
    """Return the provider's own explanation in one line, without secrets; empty for a key that it does not know."""
    body: Any = getattr(error, "body", None)
    if getattr(error, "status_code", None) == 401 or body is None:
        return ""
    if isinstance(body, str | bytes):
        try:
            body = msgspec.json.decode(body)
        except (ValueError, RecursionError):
            return ""
    return explanation(_lower(body), service.secrets)


def _lower(body: Any) -> Any:
    # Amazon's names begin with capitals.
    return {str(key).lower(): _lower(value) for key, value in body.items()} if isinstance(body, dict) else body
