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


def error_of(error: Exception, asked: Service) -> SymbiontError:
    """Return the error for a failed question."""
    status = getattr(error, "status_code", None)
    said = _explanation(error, asked)
    # The explanation of a key that is not accepted may contain a part of it.
    detail = "" if isinstance(error, ModelAuthenticationError) else said
    if exceeds_window(detail, status) or (status != 429 and isinstance(error, ModelContextWindowExceededError)):
        message = f"the request is larger than the window of {asked.model} at {asked.host}"
        return WindowExceeded(f"{message}: {detail}" if detail else message)
    answered = f"{asked.host} answered {status}" if status else f"{asked.host} answered with an error"
    answered = f"{answered}: {detail}" if detail else answered
    return _temporary_error(error, asked, status, answered) or _permanent_error(error, asked, answered, detail, said)


def malformed_in(error: Exception, asked: Service) -> Reply | None:
    """Return the reply that a failed question had all the same, because the model wrote no valid calls."""
    return malformed_reply(getattr(error, "body", None), _explanation(error, asked))


def refusal_in(response: ModelResponse, asked: Service) -> RequestRefused | None:
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
    refusal = RequestRefused(f"{asked.host} refuses what the request says: {one_line(str(words), asked.secrets)}")
    refusal.maybe_done = True
    return refusal


def _temporary_error(error: Exception, asked: Service, status: object, answered: str) -> ModelUnavailable | None:
    """Return the error if the same question may be answered later."""
    if isinstance(error, ModelRequestTimeout | ModelTimeoutError):
        return unavailable(
            asked, f"{asked.host} did not answer within {format_duration(asked.seconds)}", maybe_done=True
        )
    if isinstance(error, ModelConnectionError) and not _is_caused_by(error, TooLarge, CompressedAnswer):
        if error.phase == "connect":
            return unavailable(asked, f"{asked.host} cannot be reached", hint="check that it is running")
        return unavailable(asked, f"{asked.host} closed the connection", maybe_done=True)
    if type(error) is ModelAPIError and asked.row in _LENGTH_UNCHECKED:
        return unavailable(asked, f"{asked.host} sent an incomplete answer", maybe_done=True)
    if isinstance(error, _PASSING) or (isinstance(status, int) and may_pass(status)):
        return unavailable(asked, answered, retry_after=getattr(error, "retry_after", None))
    return None


def _permanent_error(error: Exception, asked: Service, answered: str, detail: str, said: str) -> ModelRefused:
    """Return the error that a person must correct, or that is about what this request says."""
    status = getattr(error, "status_code", None)
    if _is_caused_by(error, CompressedAnswer):
        return _refusal(asked, f"{asked.host} sent a compressed answer, which was not requested", "check the URL")
    if _is_caused_by(error, TooLarge):
        return _refusal(asked, f"{asked.host} answered more than {LARGEST_ANSWER} bytes", "check the URL")
    kind = kind_of(status, detail, said, no_model=isinstance(error, ModelNotFoundError))
    if issubclass(kind, RequestRefused) and is_moderated(said):
        return kind(f"{asked.host} refuses what the request says: {said}")
    match error:
        case ModelAuthenticationError():
            message = f"{asked.host} does not accept the key of the model {asked.row}"
            message = f"{message} (it answered {status})" if status else message
            return AccessRefused(message, hint=f"check that the key is valid and may use {asked.model}")
        case ModelNotFoundError():
            return NoSuchModel(f"{asked.host} has no model {asked.model}", hint="check `model` and `url`")
        case ModelQuotaExceededError():
            return _refusal(asked, answered, "the account's quota is used up", AccessRefused)
        case ModelHTTPError():
            return _refusal(asked, answered, error.hint, kind)
    return not_text(asked)


def not_text(asked: Service) -> ModelRefused:
    """Return the error for an answer that is no reply."""
    refusal = ModelRefused(
        f"the model {asked.row} got an answer from {asked.host} that is not text", hint="check the URL"
    )
    refusal.maybe_done = True
    return refusal


def unavailable(
    asked: Service,
    reason: str,
    *,
    hint: str | None = None,
    retry_after: float | None = None,
    maybe_done: bool = False,
) -> ModelUnavailable:
    """Return the error for a question that may be answered later."""
    error = ModelUnavailable(f"the model {asked.row} is unavailable: {reason}", hint=hint, retry_after=retry_after)
    error.maybe_done = maybe_done
    return error


def _refusal(asked: Service, reason: str, hint: str | None, kind: type[ModelRefused] = ModelRefused) -> ModelRefused:
    return kind(f"the model {asked.row} is refused: {reason}", hint=hint)


def _is_caused_by(error: BaseException, *kinds: type[Exception]) -> bool:
    return any(isinstance(each, kinds) for each in _causes(error))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _explanation(error: Exception, asked: Service) -> str:
    """Return the provider's own explanation in one line, without secrets; empty for a key that it does not know."""
    body: Any = getattr(error, "body", None)
    if getattr(error, "status_code", None) == 401 or body is None:
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
