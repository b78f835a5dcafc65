"""Headers and body are restored as received, without values that would let a reader send requests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dslc.blocks.webhook import Webhook
from runtime.database.connection import Database
from runtime.database.schema import bodies
from runtime.database.sealed import Seal
from runtime.secrets.secret import Secret
from runtime.webhooks.deliveries.inbox import Inbox
from runtime.webhooks.deliveries.stored_request import body_of, pack, unpack, without_secrets
from runtime.webhooks.receiving.admission import Admission
from runtime.webhooks.request.headers import Headers
from runtime.webhooks.routing.route import Route, build_route
from tests.clocks import ManualClock
from tests.runtime.webhooks.candidates import BODY, candidate, rows

RECEIVED = (("Host", "hooks.example"), ("X-GitHub-Event", "push"), ("x-github-event", "push"), ("X-Empty", ""))

_text = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.lists(st.tuples(_text, _text)).map(tuple), st.binary())
def test_what_was_packed_is_unpacked(headers: tuple[tuple[str, str], ...], body: bytes) -> None:
    piece, size = pack(headers, body)
    assert unpack(piece, size) == (headers, body)
    assert body_of(piece, size) == body


@given(st.binary())
def test_a_body_stored_without_headers_is_whole(body: bytes) -> None:
    assert unpack(body, 0) == ((), body)
    assert body_of(body, 0) == body


def test_bytes_that_are_not_utf_8_are_kept_as_far_as_they_can_be() -> None:
    piece, size = pack((("X-Name", "caf\udce9"),), b"")
    assert unpack(piece, size).headers == (("X-Name", "caf\ufffd"),)


@pytest.mark.parametrize("name", ["Authorization", "cookie", "Proxy-Authorization"])
def test_credentials_are_not_kept(name: str) -> None:
    assert without_secrets(Headers([(name, "Basic YTpi"), ("X-Signature", "v1=ab")])) == (
        (name, "***"),
        ("X-Signature", "v1=ab"),
    )


def test_a_shared_token_is_not_kept_and_a_signature_is() -> None:
    headers = Headers([("X-Gitlab-Token", "hunter22"), ("X-Mine", "Token hunter22"), ("X-Signature", "v1=ab")])
    assert [value for _, value in without_secrets(headers, ["hunter22"])] == ["***", "***", "v1=ab"]


@pytest.mark.parametrize(
    ("provider", "options", "header"),
    [
        ("jwt", {"header": "X-Jwt", "algorithms": "HS256"}, "X-Jwt"),
        ("token", {"header": "X-Mine"}, "X-Mine"),
        ("gitlab", {}, "X-Gitlab-Token"),
    ],
)
@pytest.mark.parametrize("unverified", [False, True])
def test_what_would_be_good_for_any_body_is_not_kept_whatever_its_value(
    provider: str, options: dict[str, object], header: str, unverified: bool
) -> None:
    route = mounted(provider, options, unverified=unverified)
    headers = Headers([(header, "eyJ0.eyJ1.c2ln"), ("X-Other", "1")])
    assert without_secrets(headers, route.shown_secrets, route.credentials) == ((header, "***"), ("X-Other", "1"))


@pytest.mark.parametrize(
    ("provider", "header"), [("netlify", "X-Webhook-Signature"), ("github", "X-Hub-Signature-256")]
)
def test_what_is_good_for_one_body_alone_is_kept(provider: str, header: str) -> None:
    route = mounted(provider, {})
    assert without_secrets(Headers([(header, "v")]), route.shown_secrets, route.credentials) == ((header, "v"),)


def mounted(provider: str, options: dict[str, object], *, unverified: bool = False) -> Route:
    secrets = [] if unverified else [Secret(b"It's a secret to everybody, of 32 bytes", "env SECRET")]
    block = Webhook.model_validate(
        {
            "name": "hook",
            "path": "/hooks/hook",
            "provider": {"name": provider, "options": options},
            "secret": ["secret://env/SECRET"] if secrets else [],
            "insecure_allow_unverified": unverified,
        }
    )
    route = build_route(block, origin="x", secrets=secrets, problem=None).route
    assert route is not None
    return route


async def test_headers_and_body_are_stored_under_one_seal(database: Database, clock: ManualClock) -> None:
    decision = await Admission(database, clock).admit(candidate("1", received=RECEIVED))
    [row] = await rows(database, bodies)
    assert b"hooks.example" not in row.body
    piece = Seal(database.keys, bodies.c.body).open(row.body, row=decision.delivery_id)
    assert unpack(piece, row.headers_size) == (RECEIVED, BODY)


async def test_an_agent_is_given_the_body_alone(database: Database, clock: ManualClock) -> None:
    await Admission(database, clock).admit(candidate("1", received=RECEIVED))
    [work] = await Inbox(database, clock).claim(1)
    assert work.body == BODY


async def test_a_delivery_of_before_headers_were_kept_still_opens(database: Database, clock: ManualClock) -> None:
    decision = await Admission(database, clock).admit(candidate("1"))
    sealed = Seal(database.keys, bodies.c.body).close(BODY, row=decision.delivery_id)
    async with database.write() as connection:
        await connection.execute(bodies.update().values(body=sealed, headers_size=0))
    [work] = await Inbox(database, clock).claim(1)
    assert work.body == BODY
