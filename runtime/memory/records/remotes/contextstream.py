"""ContextStream: the second design's remote store ("Data Format Examples", "Failure handling")."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field

from dslc.blocks.values.secret import is_reference
from dslc.blocks.values.types import Duration, SecretReference
from runtime.clock import Clock
from runtime.memory.records.remotes.remote import NotSent, Outlook, RemoteOff
from runtime.outbound.http import CallFailed, HttpCaller
from runtime.secrets.secret import Secret

_TRIES = 2  # "retry once"
_LARGEST_ANSWER = 1024 * 1024
# Statuses that mean a wrong address or key, whatever the record.
_OPTIONS_ARE_WRONG = frozenset({401, 402, 403, 404, 405, 407, 410, 421, 426})


class ContextStreamOptions(BaseModel):
    """Options of ContextStream: its address, key and project."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    url: SecretReference = Field(
        examples=["secret://env/CONTEXTSTREAM_URL"],
        description="The URL to which records are sent, https or http. It may contain a token, so it is treated "
        "as a secret.",
    )
    api_key: SecretReference = Field(
        examples=["secret://env/CONTEXTSTREAM_API_KEY"], description="The key, sent as `Authorization: Bearer`."
    )
    project: str = Field(
        min_length=1, max_length=256, examples=["neuronx"], description="The project that the records belong to."
    )
    timeout: Duration = Field(
        default=timedelta(seconds=10),
        ge=timedelta(milliseconds=100),
        le=timedelta(minutes=5),
        description="Timeout of one try; after two tries the record waits.",
    )


def open_contextstream(options: Mapping[str, object], clock: Clock) -> ContextStream:
    """Open the remote of this row."""
    url, key = _text(options, "url").strip(), _text(options, "api_key").strip()
    try:
        parts = urlsplit(url)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good:
        raise RemoteOff("its url is not an http or https address")
    if not key.isascii() or not key.isprintable():
        raise RemoteOff("its api_key contains characters that are invalid in a header")
    timeout = options.get("timeout", timedelta(seconds=10))
    assert isinstance(timeout, timedelta)
    return ContextStream(url, key, str(options.get("project", "")), timeout.total_seconds(), clock)


class ContextStream:
    """Sends records by HTTP; see `Remote`."""

    name = "contextstream"

    def __init__(self, url: str, key: str, project: str, timeout_seconds: float, clock: Clock) -> None:
        self.seconds = timeout_seconds * _TRIES + 1
        self._url = url
        self._key = key
        self._project = project
        self._timeout = timeout_seconds
        self._caller = HttpCaller(clock=clock, largest_answer=_LARGEST_ANSWER)

    async def send(self, record: dict[str, Any]) -> None:
        headers = {"Authorization": f"Bearer {self._key}", "Idempotency-Key": str(record["id"])}
        try:
            await self._caller.post_json(
                self._url,
                {"record": record, "project": self._project},
                headers=headers,
                timeout_seconds=self._timeout,
                tries=_TRIES,
            )
        except CallFailed as failure:
            if failure.status is not None and 200 <= failure.status < 300:
                return  # it accepted the record; the content of its answer does not matter
            message = " ".join(failure.line().split())
            failed = NotSent(message, _outlook(failure), status=failure.status, retry_after=failure.retry_after)
            raise failed from None

    async def close(self) -> None:
        await self._caller.close()


def _outlook(failure: CallFailed) -> Outlook:
    if failure.passing:
        return "later"
    options = failure.status is None or 300 <= failure.status < 400 or failure.status in _OPTIONS_ARE_WRONG
    return "changed" if options else "never"


def _text(options: Mapping[str, object], name: str) -> str:
    """Return an option that is a secret. Raises RemoteOff if it was not resolved."""
    value = options.get(name)
    if isinstance(value, Secret):
        return value.reveal().decode("utf-8", "replace")
    if not isinstance(value, str) or not value.strip():
        raise RemoteOff(f"its {name} is not given")
    if is_reference(value):
        raise RemoteOff(f"its {name} could not be resolved from {value}")
    return value
