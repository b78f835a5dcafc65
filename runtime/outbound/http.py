"""Calls to services that the program names: JSON in both directions, with limits of time and size, and retries."""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final, NoReturn
from urllib.parse import urlsplit

import aiohttp
import msgspec

from dslc.blocks.values.quantity import format_duration
from runtime.clock import SYSTEM, Clock
from runtime.errors import Retry
from runtime.json_bounds import excess
from runtime.json_text import decode_strictly
from runtime.outbound.retry import call_with_retries

CONNECT_SECONDS = 10.0
"""Seconds for connecting to a host, TLS included; less if the whole call may take less."""
LARGEST_ANSWER = 8 * 1024 * 1024
"""Default limit of an answer in bytes."""
MOST_VALUES: Final = 500_000
"""Default limit of an answer in values: decoding them takes 0.1 seconds, in which nothing else runs."""
LARGEST_STREAM = 8
"""Limit of a streamed answer, in largest answers: each part of one repeats names and identifiers."""

_ERROR_BYTES = 64 * 1024
_DETAIL = 300
_PASSING = frozenset({408, 425, 429})
# RFC 9110 sections 15.6.2 and 15.6.6: what the server does not support. Its other errors, those of proxies included,
# may be temporary.
_UNSUPPORTED = frozenset({501, 505})
# RFC 9110 section 5.5, without bytes above ASCII, which readers decode differently.
_NOT_IN_HEADER = re.compile(r"[^\t\x20-\x7e]")
_LARGE = 256 * 1024


class CallFailed(Retry):
    """A call failed. The message contains the host and what to do, and no data that was sent.

    `status`: of the answer, None without one. `passing`: True if the same call may succeed later. `detail`: the
    service's own explanation in one line, without what was sent in headers; empty if it gives none, or might mention
    credentials. `retry_after`: seconds that the service asks to wait. `maybe_done`: see `SymbiontError`. `answer`: the
    decoded answer with the explanation, which is untrusted; None without one.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        status: int | None = None,
        passing: bool = True,
        detail: str = "",
        retry_after: float | None = None,
        maybe_done: bool = False,
        answer: Any = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.maybe_done = maybe_done
        self.answer = answer
        self.status = status
        self.passing = passing
        self.detail = detail
        self.retry_after = retry_after


def passes(failure: Retry) -> bool:
    """True if the same call may succeed later."""
    return not isinstance(failure, CallFailed) or failure.passing


class HttpCaller:
    """Makes calls over reused connections; `close` ends them. One event loop uses it.

    Redirects are not followed, so that no header goes to another host; cookies are not stored; the environment's
    proxies and `.netrc` are ignored.
    """

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | None = None,
        largest_answer: int = LARGEST_ANSWER,
        most_values: int = MOST_VALUES,
        socket: Path | None = None,
        clock: Clock = SYSTEM,
    ) -> None:
        """`tls`: the trusted authorities, by default the system's. `largest_answer`: in bytes. `most_values`: of an
        answer of JSON. `socket`: to which all calls are made, whatever the host of their URL is."""
        self._tls = tls
        self._socket = socket
        self._largest = largest_answer
        self._most_values = most_values
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None

    async def post_json(
        self, url: str, body: Any, *, headers: Mapping[str, str] | None = None, timeout_seconds: float, tries: int
    ) -> Any:
        """POST `body` as JSON; return the decoded answer, or None for an empty one (204).

        One try takes `timeout_seconds` at most, from resolving the name to the last byte. Temporary failures (no
        connection, no answer in time, 429, most of 5xx) are tried `tries` times in all, after 0.5 s, 1 s, 2 s … or the
        time in `Retry-After`; so the service may get the same body more than once. Raises CallFailed.
        """
        return await self._call("POST", url, _to_json(body, _host(url)), dict(headers or {}), timeout_seconds, tries)

    async def get_json(
        self, url: str, *, headers: Mapping[str, str] | None = None, timeout_seconds: float, tries: int = 1
    ) -> Any:
        """GET and return the decoded answer, otherwise as `post_json`."""
        return await self._call("GET", url, None, dict(headers or {}), timeout_seconds, tries)

    async def post_lines(
        self,
        url: str,
        body: Any,
        *,
        headers: Mapping[str, str] | None = None,
        part_seconds: float,
        timeout_seconds: float,
    ) -> AsyncGenerator[bytes, None]:
        """POST `body` as JSON, once; yield the lines of the answer as they arrive, without their ends (LF, CRLF).

        `part_seconds`: at most until the answer begins, and between two parts of it. `timeout_seconds`: at most in all.
        A line has at most `largest_answer` bytes, the answer `LARGEST_STREAM` times as many. `aclose` ends the
        connection. Raises CallFailed, also after some lines.
        """
        host = _host(url)
        content = _to_json(body, host)
        sent = _check_headers(headers or {}, host)
        begun, late = False, f"{host} did not begin its answer within {format_duration(part_seconds)}"
        timeout = aiohttp.ClientTimeout(
            total=timeout_seconds, sock_connect=min(part_seconds, CONNECT_SECONDS), sock_read=part_seconds
        )
        failure: CallFailed
        try:
            async with self._request("POST", url, content, sent, timeout) as response:
                if not 200 <= response.status < 300:
                    await self._refuse(response, host, sent)
                _refuse_compressed(response, host)
                begun, late = True, f"{host} sent no part of its answer for {format_duration(part_seconds)}"
                rest, size = bytearray(), 0
                async for part in response.content.iter_any():
                    size += len(part)
                    rest += part
                    lines = rest.split(b"\n") if b"\n" in part else [rest]
                    rest = lines.pop()
                    if len(rest) > self._largest or size > self._largest * LARGEST_STREAM:
                        raise self._too_large(response, host)
                    for line in lines:
                        yield bytes(line.removesuffix(b"\r"))
                if rest:
                    yield bytes(rest)
                return
        except aiohttp.ServerTimeoutError:
            failure = CallFailed(late, hint=_OVERLOADED, maybe_done=True)
        except TimeoutError:
            if begun or timeout_seconds > part_seconds:
                late = f"{host} did not finish its answer within {format_duration(timeout_seconds)}"
            failure = CallFailed(late, hint=_OVERLOADED, maybe_done=True)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            failure = _connection_error(error, host)
        # Raised here, so that the library's error, which may contain the URL, is not its context.
        raise failure

    async def close(self) -> None:
        """Close the connections; running calls fail."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _call(
        self, method: str, url: str, content: bytes | None, headers: dict[str, str], seconds: float, tries: int
    ) -> Any:
        host = _host(url)
        _check_headers(headers, host)
        return await call_with_retries(
            lambda: self._send(method, url, host, content, headers, seconds),
            tries=tries,
            clock=self._clock,
            passing=lambda failure: passes(failure) and self._session is not None,
        )

    async def _send(
        self, method: str, url: str, host: str, content: bytes | None, headers: dict[str, str], seconds: float
    ) -> Any:
        failure: CallFailed
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=min(seconds, CONNECT_SECONDS))
        try:
            async with self._request(method, url, content, headers, timeout) as response:
                if not 200 <= response.status < 300:
                    await self._refuse(response, host, headers)
                return await _decode(await self._content(response, host), host, response.status, self._most_values)
        except (TimeoutError, aiohttp.ServerTimeoutError):
            failure = CallFailed(
                f"{host} did not answer within {format_duration(seconds)}", hint=_OVERLOADED, maybe_done=True
            )
        except (aiohttp.ClientError, OSError, ValueError) as error:
            failure = _connection_error(error, host)
        # Raised here, so that the library's error, which may contain the URL, is not its context.
        raise failure

    def _request(
        self, method: str, url: str, content: bytes | None, headers: Mapping[str, str], timeout: aiohttp.ClientTimeout
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        kind = {} if content is None else {"Content-Type": "application/json"}
        return self._open_session().request(
            method,
            url,
            data=content,
            headers={**kind, "Accept-Encoding": "identity", **headers},
            allow_redirects=False,
            timeout=timeout,
        )

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            # Created here and not by the caller: both belong to the running event loop.
            self._session = aiohttp.ClientSession(
                connector=self._connector(),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
                headers={"User-Agent": "symbiont", "Accept": "application/json"},
            )
        return self._session

    def _connector(self) -> aiohttp.BaseConnector:
        if self._socket is not None:
            # A server may close what it kept open at the moment of the next call.
            return aiohttp.UnixConnector(str(self._socket), force_close=True)
        return aiohttp.TCPConnector(ssl=self._tls or True, limit=16)

    async def _content(self, response: aiohttp.ClientResponse, host: str) -> bytes:
        _refuse_compressed(response, host)
        content = await _read_at_most(response, self._largest + 1)
        if len(content) > self._largest:
            raise self._too_large(response, host)
        return content

    def _too_large(self, response: aiohttp.ClientResponse, host: str) -> CallFailed:
        return CallFailed(
            f"{host} answered more than {self._largest} bytes",
            hint="check the URL",
            status=response.status,
            passing=False,
            maybe_done=True,
        )

    async def _refuse(self, response: aiohttp.ClientResponse, host: str, headers: Mapping[str, str]) -> NoReturn:
        """Raise the error for an answer other than 2xx."""
        status = response.status
        # The explanation of a key that is not accepted may contain a part of it.
        answer = None
        if status not in {401, 407}:
            answer = _error_answer(await _read_at_most(response, _ERROR_BYTES), response.content_type)
        detail = "" if status == 403 else explanation(answer, headers)
        message = f"{host} answered {status}" + (f": {detail}" if detail else "")
        hint = _HINTS.get(status)
        if 300 <= status < 400:
            hint = "redirects are not followed: use the URL of its target"
        raise CallFailed(
            message,
            hint=hint,
            status=status,
            passing=may_pass(status),
            detail=detail,
            answer=answer,
            retry_after=_retry_after(response.headers.get("Retry-After", ""), self._clock.now()),
        )


_OVERLOADED = "check that it is running and not overloaded"
_HINTS = {
    401: "it does not accept the key: check that it is correct and still valid",
    403: "the key does not have the required permission",
    404: "check the URL",
    405: "check the URL",
    407: "a proxy requires authentication",
    413: "the request is too large: send less at once",
    429: "it receives too many requests",
}


def may_pass(status: int) -> bool:
    """True if an answer with this status may be temporary."""
    return status in _PASSING or (500 <= status <= 599 and status not in _UNSUPPORTED)


def _host(url: str) -> str:
    """Return the host, with its port if given: the only part of a URL that may be shown, as the rest may be secret."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
        parts = urlsplit("")
    if parts.scheme not in {"http", "https"} or not host:
        raise CallFailed("this is not an http or https URL", hint="such as https://example.org/v1", passing=False)
    if parts.username is not None or parts.password is not None:
        raise CallFailed("a URL with a user name or a password is not allowed", passing=False)
    shown = f"[{host}]" if ":" in host else host
    return shown if port is None else f"{shown}:{port}"


def _check_headers(headers: Mapping[str, str], host: str) -> Mapping[str, str]:
    if any(_NOT_IN_HEADER.search(text) for header in headers.items() for text in header):
        raise CallFailed(f"{host} cannot be called: a header contains invalid characters", passing=False)
    return headers


def _to_json(body: Any, host: str) -> bytes:
    try:
        return msgspec.json.encode(body)
    except (TypeError, ValueError, UnicodeEncodeError):
        failure = CallFailed(f"the request to {host} cannot be written as JSON", passing=False)
    raise failure


async def _decode(content: bytes, host: str, status: int, most: int) -> Any:
    if status in {204, 205}:
        return None
    problem = "something that is not JSON"
    try:
        if len(content) <= _LARGE:
            return decode_strictly(content)
        if (what := await asyncio.to_thread(excess, content, most)) is None:
            return await asyncio.to_thread(decode_strictly, content)
        problem = f"JSON that is not read: {what}"
    except (ValueError, RecursionError):
        # The content may be anything; it is not shown.
        pass
    raise CallFailed(f"{host} answered {problem}", hint="check the URL", status=status, passing=False, maybe_done=True)


def _refuse_compressed(response: aiohttp.ClientResponse, host: str) -> None:
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise CallFailed(
            f"{host} sent a compressed answer, which was not requested", status=response.status, passing=False
        )


async def _read_at_most(response: aiohttp.ClientResponse, most: int) -> bytes:
    content = bytearray()
    while len(content) < most and (part := await response.content.read(most - len(content))):
        content += part
    return bytes(content)


def _connection_error(error: Exception, host: str) -> CallFailed:
    """Return the error for a call without an answer, without the library's texts, which may contain a URL or a
    header."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            reason = getattr(error.certificate_error, "verify_message", "") or "it is not accepted"
            return CallFailed(f"the certificate of {host} is invalid: {reason}", passing=False)
        case aiohttp.ClientSSLError():
            hint = "if the server does not use TLS, write http://"
            return CallFailed(f"{host} cannot be reached by TLS", hint=hint, passing=False)
        case aiohttp.ClientConnectorDNSError():
            return CallFailed(f"the host {host} is not known", hint="check its name and the network")
        case aiohttp.InvalidURL():
            return CallFailed("this is not an http or https URL", hint="such as https://example.org/v1", passing=False)
        case aiohttp.ClientConnectorError():
            # The text of asyncio's own error contains the address; the system's text for its number does not.
            number = error.os_error.errno
            reason = os.strerror(number).lower() if number else type(error.os_error).__name__
            return CallFailed(f"{host} cannot be reached: {reason}", hint="check that it is running")
        case aiohttp.ClientPayloadError() | aiohttp.ClientConnectionError() | OSError():
            return CallFailed(f"{host} closed the connection", maybe_done=True)
        case aiohttp.ClientError():
            return CallFailed(f"{host} answered something that is not HTTP", hint="check the URL", passing=False)
    return CallFailed(f"the request to {host} cannot be sent", passing=False)


def _error_answer(content: bytes, content_type: str) -> Any:
    try:
        return decode_strictly(content)
    except (ValueError, RecursionError):
        return content.decode(errors="replace") if content_type == "text/plain" else None


def explanation(error: Any, headers: Mapping[str, str]) -> str:
    """Return the explanation in a decoded error from the usual fields, in one line, without what was sent in
    headers."""
    if isinstance(error, list) and error and isinstance(error[0], dict) and "error" in error[0]:
        # The form of Google, also behind OpenAI's API: a list around the error.
        error = error[0]
    for key in ("error", "errors", "base_resp", "message", "msg", "status_msg", "detail"):
        if isinstance(error, dict) and error.get(key):
            raw = _raw(error.get("metadata"), headers)
            error = error[key][0] if key == "errors" and isinstance(error[key], list) else error[key]
            if raw and isinstance(error, str):
                error = f"{error}: {raw}"
    if isinstance(error, list) and error and isinstance(error[0], dict) and "msg" in error[0]:
        # The form of FastAPI: a list of errors, each with the path of a field.
        place = error[0].get("loc")
        where = ".".join(map(str, place)) if isinstance(place, list) else ""
        error = f"{where}: {error[0]['msg']}"
    return one_line(error, headers) if isinstance(error, str) else ""


def one_line(text: str, headers: Mapping[str, str]) -> str:
    """Return a text of a service in one line, without what was sent in headers."""
    for value in headers.values():
        for part in (value, *value.split()):
            if len(part) >= 6:
                # A service may show the begin of a key with stars after it.
                text = re.sub(rf"{re.escape(part)}|{re.escape(part[:8])}\S*\*\S*", "…", text)
    text = "".join(letter if letter.isprintable() else " " for letter in text)
    text = re.sub(r" +", " ", text).strip().rstrip(".")
    return text if len(text) <= _DETAIL else f"{text[: _DETAIL - 1]}…"


def _raw(metadata: Any, headers: Mapping[str, str]) -> str:
    """Return the explanation of the provider behind a router, such as OpenRouter, whose own text says only that the
    provider refused; empty without one."""
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    if isinstance(raw, str):
        with suppress(ValueError, RecursionError):
            return explanation(decode_strictly(raw), headers)
    return explanation(raw, headers)


def _retry_after(text: str, now: float) -> float | None:
    """Return the seconds of a `Retry-After` (RFC 9110 section 10.2.3): a number, or a date."""
    text = text.strip()
    if re.fullmatch(r"[0-9]{1,9}(?:\.[0-9]{1,6})?", text):
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (TypeError, ValueError, OverflowError):
        return None
