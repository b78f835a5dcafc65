"""Mutations of valid requests never cause an internal error."""

from __future__ import annotations

import json
import re
import time
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.api.admin.operations import OPERATIONS
from runtime.tools import TOOLS
from tests.lanes import LONG
from tests.runtime.attacks.conftest import SECRETS, STRIPE_SECRET
from tests.runtime.attacks.wire import check_unharmed, connect, exchange, failures, request, statuses
from tests.runtime.daemon.running import SECRET, Daemon
from tests.runtime.daemon.v1 import Made, ask, make_webhook
from tests.signatures import sign

pytestmark = LONG

FEW = settings(settings.get_profile("attacks"), suppress_health_check=list(HealthCheck))

DOCUMENT = {"id": "evt_1", "type": "thing.made", "action": "opened", "n": 1, "list": [1, {"a": None}], "text": "ä"}
BODY = json.dumps(DOCUMENT).encode()
PATHS = (
    "/hooks/github",
    "/hooks/stripe",
    "/hooks/filtered",
    "/hooks/open",
    "/hooks/token",
    "/hooks/jwt",
    "/hooks/slack",
)
ASKING = (
    *("/hooks/dropbox?challenge=abc", "/hooks/meta?hub.mode=subscribe&hub.challenge=1&hub.verify_token=x", "/healthz"),
    *(
        "/hooks/twitter?crc_token=abc",
        "/hooks/okta",
        "/hooks/azure",
        "/nothing",
        "/webhooks/5f3c1f0e-7c7b-4a55-9a3e-0d6a5f0f7a11",
    ),
)
KINDS = ("application/json", "application/x-www-form-urlencoded", "x")
METHODS = ("GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS", "TRACE")
OPERATORS = ("/readyz", "/healthz", "/metrics", "/v1/webhooks", "/v1/openapi.json", "/v1/nothing", "/")

# Values that often break parsers.
JUNK = st.sampled_from(
    [
        *(
            b"\0",
            b"\r",
            b"\n",
            b"\r\n",
            b"\r\n\r\n",
            b" ",
            b"\t",
            b":",
            b",",
            b";",
            b"%",
            b"%00",
            b"%zz",
            b"\xff",
            b"\xc3",
        ),
        *(b"\xed\xa0\x80", b"\xe2\x80\xae", b"\x1b[31m", b"0", b"-1", b"9" * 30, b"chunked", b"gzip", b"Host: y\r\n"),
        *(
            b"Content-Length: 5\r\n",
            b"Transfer-Encoding: chunked\r\n",
            b"Content-Encoding: gzip\r\n",
            b'"',
            b"\\",
            b"\\ud800",
        ),
        *(
            b"[" * 3000,
            b"{" * 3000,
            b"9" * 5000,
            b"Expect: 100-continue\r\n",
            b"Connection: close\r\n",
            b"HTTP/2.0",
            b"NaN",
        ),
    ]
) | st.binary(max_size=8)
DAMAGE = st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 12), JUNK), max_size=4)


def damaged(data: bytes, damage: list[tuple[int, int, bytes]]) -> bytes:
    for place, removed, inserted in damage:
        at = place % (len(data) + 1)
        data = data[:at] + inserted + data[at + removed :]
    return data


def signed(path: str, body: bytes) -> list[tuple[str, str]]:
    """Return the signature headers of this sender; none for unknown senders."""
    name = {"/hooks/github": "github", "/hooks/filtered": "github", "/hooks/slack": "slack"}.get(path, "stripe")
    secret = SECRET if name == "github" else STRIPE_SECRET
    with suppress(ValueError):
        return sign(name, secret, body, now=time.time(), delivery_id=str(time.time_ns()), event="push")
    return []


def without_fault(daemon: Daemon, data: bytes, to: str = "public", patience: float = 5) -> None:
    answer = exchange(daemon, data, to, patience=patience)
    assert not any(status in {500, 501, 502, 504} for status in statuses(answer)), (data[:3000], answer[:1000])
    assert daemon.process.poll() is None


@FEW
@given(path=st.sampled_from(PATHS), damage=DAMAGE)
def test_a_damaged_delivery_is_no_fault(shared_daemon: Daemon, path: str, damage: list[tuple[int, int, bytes]]) -> None:
    without_fault(shared_daemon, damaged(request(path, BODY, signed(path, BODY)), damage))


@FEW
@given(path=st.sampled_from(PATHS), damage=DAMAGE, kind=st.sampled_from(KINDS))
def test_a_signed_delivery_with_a_damaged_body_is_no_fault(
    shared_daemon: Daemon, path: str, damage: list[tuple[int, int, bytes]], kind: str
) -> None:
    body = damaged(BODY, damage)
    without_fault(shared_daemon, request(path, body, [*signed(path, body), ("Content-Type", kind)]))


@FEW
@given(path=st.sampled_from(ASKING), method=st.sampled_from(METHODS), damage=DAMAGE)
def test_a_damaged_question_is_no_fault(
    shared_daemon: Daemon, path: str, method: str, damage: list[tuple[int, int, bytes]]
) -> None:
    without_fault(shared_daemon, damaged(request(path, b"", {}, method), damage))


@FEW
@given(
    path=st.sampled_from(PATHS),
    name=st.sampled_from(
        ["Stripe-Signature", "X-Hub-Signature-256", "Authorization", "X-Slack-Signature", "Content-Type"]
    ),
    value=st.text(max_size=60) | st.from_regex(r"t=[0-9]{1,20},v1=[0-9a-f]{0,70}", fullmatch=True),
)
def test_any_text_in_a_header_that_is_read_is_no_fault(shared_daemon: Daemon, path: str, name: str, value: str) -> None:
    raw = request(path, BODY, {name: "@"}).replace(b"@", value.encode("utf-8", "surrogatepass"))
    without_fault(shared_daemon, raw)


@FEW
@given(path=st.sampled_from(OPERATORS), method=st.sampled_from(METHODS), damage=DAMAGE)
def test_a_damaged_question_of_an_operator_is_no_fault(
    shared_daemon: Daemon, token: str, path: str, method: str, damage: list[tuple[int, int, bytes]]
) -> None:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Connection": "close"}
    body = b'{"limit":1}' if method != "GET" else b""
    without_fault(shared_daemon, damaged(request(path, body, headers, method), damage), "admin", patience=0.3)


@pytest.fixture(scope="session")
def made(shared_daemon: Daemon, token: str) -> Made:
    """A webhook that was created at run time."""
    return make_webhook(shared_daemon, token)


@pytest.fixture(scope="session")
def routes(shared_daemon: Daemon, token: str, made: Made) -> list[tuple[str, str]]:
    """Return every method and path in the OpenAPI document of `/v1`."""
    paths = ask(shared_daemon, token, "GET", "/v1/openapi.json").json()["paths"]
    found = [(method.upper(), re.sub(r"\{[^}]*\}", made.id, path)) for path in paths for method in paths[path]]
    assert len(found) > 5
    return found


@FEW
@given(choice=st.integers(0), damage=DAMAGE, inside=DAMAGE)
def test_a_damaged_question_of_any_route_is_no_fault(
    shared_daemon: Daemon,
    token: str,
    routes: list[tuple[str, str]],
    choice: int,
    damage: list[tuple[int, int, bytes]],
    inside: list[tuple[int, int, bytes]],
) -> None:
    method, path = routes[choice % len(routes)]
    body = damaged(b'{"title":"x","agent":"reviewer","overlap":"1h","is_active":true}', inside)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Connection": "close"}
    to = "public" if path.startswith("/webhooks/") else "admin"
    whole = request(path, b"" if method == "GET" else body, headers, method)
    without_fault(shared_daemon, damaged(whole, damage[:2]), to, patience=0.3)


@FEW
@given(damage=DAMAGE, inside=DAMAGE)
def test_a_damaged_delivery_to_a_webhook_that_was_made_is_no_fault(
    shared_daemon: Daemon, made: Made, damage: list[tuple[int, int, bytes]], inside: list[tuple[int, int, bytes]]
) -> None:
    body = damaged(BODY, inside)
    without_fault(shared_daemon, damaged(request(made.path, body, made.headers(body)), damage[:2]))


@FEW
@given(name=st.sampled_from(sorted([*OPERATIONS, *TOOLS])), damage=DAMAGE, inside=DAMAGE)
def test_a_damaged_operation_is_no_fault(
    shared_daemon: Daemon, name: str, damage: list[tuple[int, int, bytes]], inside: list[tuple[int, int, bytes]]
) -> None:
    body = damaged(b'{"parameters":{"name":"github-events","agent":"reviewer","body":"e30=","limit":1}}', inside)
    whole = request(f"/v1/{name}", body, {"Connection": "close"})
    without_fault(shared_daemon, damaged(whole, damage[:2]), "socket", patience=0.3)


@FEW
@given(
    pieces=st.lists(st.binary(max_size=60) | JUNK, min_size=1, max_size=6),
    to=st.sampled_from(["public", "admin", "socket"]),
)
def test_bytes_that_are_no_request_at_all_are_no_fault(shared_daemon: Daemon, pieces: list[bytes], to: str) -> None:
    with connect(shared_daemon, to) as link, suppress(OSError):
        for piece in pieces:
            link.send(piece)
    assert shared_daemon.process.poll() is None


@pytest.fixture(autouse=True)
def unharmed(shared_daemon: Daemon):  # type: ignore[no-untyped-def]
    """After each of them the daemon is unchanged, and no secret is in its log."""
    before = shared_daemon.log.stat().st_size
    yield
    check_unharmed(shared_daemon, before)
    assert failures(shared_daemon, before) == []
    said = shared_daemon.log.read_text()
    assert not any(secret in said for secret in (SECRET, *SECRETS.values()))
