"""Only the browser that answers a login ends it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from urllib.parse import urlencode, urlsplit

import httpx2
import pytest

from runtime.cli.login_listener import LoginListener
from runtime.errors import SymbiontError

ADDRESS = "https://auth.example/authorize?client_id=c&state=s3cret"
Got = Callable[[], dict[str, str]]


def waiting(listener: LoginListener) -> Got:
    """Wait in a thread; return what returns what came, or raises what was raised."""
    found: list[dict[str, str] | Exception] = []

    def wait() -> None:
        try:
            found.append(listener.wait(ADDRESS))
        except SymbiontError as error:
            found.append(error)

    thread = threading.Thread(target=wait)
    thread.start()

    def got() -> dict[str, str]:
        thread.join(30)
        assert found, "the login goes on"
        if isinstance(found[0], Exception):
            raise found[0]
        return found[0]

    return got


def opened(listener: LoginListener, host: str | None = None, **query: str) -> int:
    """Open the address as a browser does, until the listener waits; return the status."""
    headers = {} if host is None else {"Host": host}
    return httpx2.get(f"{listener.redirect_uri}?{urlencode(query)}", headers=headers).status_code


def test_a_page_without_the_state_of_the_login_does_not_end_it() -> None:
    with LoginListener() as listener:
        got = waiting(listener)
        assert opened(listener, error="access_denied", error_description="\x1b[2J") == 400
        assert opened(listener, error="access_denied", state="guess") == 400
        assert opened(listener, code="theirs") == 400
        assert opened(listener, state="s3cret") == 400
        assert opened(listener, "evil.example", code="theirs", state="s3cret") == 404
        assert opened(listener, "localhost:80", code="theirs", state="s3cret") == 404
        assert opened(listener, code="ours", state="s3cret") == 200
        assert got() == {"code": "ours", "state": "s3cret"}


def test_only_the_first_answer_counts() -> None:
    with LoginListener() as listener:
        got = waiting(listener)
        assert opened(listener, code="ours", state="s3cret", iss="https://auth.example") == 200
        assert opened(listener, code="another", state="s3cret") == 400
        assert got() == {"code": "ours", "state": "s3cret", "iss": "https://auth.example"}


def test_a_silent_connection_keeps_nobody_out() -> None:
    """Browsers open connections in advance."""
    with LoginListener() as listener:
        place = urlsplit(listener.redirect_uri)
        with (
            socket.create_connection((place.hostname, place.port)),
            socket.create_connection((place.hostname, place.port)),
        ):
            got = waiting(listener)
            assert opened(listener, code="ours", state="s3cret") == 200
            assert got()["code"] == "ours"


def test_a_refusal_is_told() -> None:
    with LoginListener() as listener:
        got = waiting(listener)
        assert opened(listener, error="access_denied", error_description="not you", state="s3cret") == 200
        with pytest.raises(SymbiontError, match="the login was refused: not you"):
            got()
