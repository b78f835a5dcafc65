"""Headers and body come back as they were received, without what would let their reader send requests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.database import Database
from runtime.database.schema import bodies
from runtime.database.sealed import Seal
from runtime.webhooks.admission import Admission
from runtime.webhooks.headers import Headers
from runtime.webhooks.inbox import Inbox
from runtime.webhooks.kept import body_of, hidden, pack, unpack
from tests.clocks import ManualClock
from tests.runtime.webhooks.deliveries import BODY, candidate, rows

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
    assert hidden(Headers([(name, "Basic YTpi"), ("X-Signature", "v1=ab")])) == (
        (name, "***"),
        ("X-Signature", "v1=ab"),
    )


def test_a_shared_token_is_not_kept_and_a_signature_is() -> None:
    headers = Headers([("X-Gitlab-Token", "hunter22"), ("X-Mine", "Token hunter22"), ("X-Signature", "v1=ab")])
    assert [value for _, value in hidden(headers, ["hunter22"])] == ["***", "***", "v1=ab"]


async def test_headers_and_body_are_stored_under_one_seal(database: Database, clock: ManualClock) -> None:
    decision = await Admission(database, clock).admit(candidate("1", received=RECEIVED))
    [row] = await rows(database, bodies)
    assert b"hooks.example" not in row.body
    piece = Seal(database.master_key, bodies.c.body).open(row.body, row=decision.delivery_id)
    assert unpack(piece, row.headers_size) == (RECEIVED, BODY)


async def test_an_agent_is_given_the_body_alone(database: Database, clock: ManualClock) -> None:
    await Admission(database, clock).admit(candidate("1", received=RECEIVED))
    [work] = await Inbox(database, clock).claim(1)
    assert work.body == BODY


async def test_a_delivery_of_before_headers_were_kept_still_opens(database: Database, clock: ManualClock) -> None:
    decision = await Admission(database, clock).admit(candidate("1"))
    sealed = Seal(database.master_key, bodies.c.body).close(BODY, row=decision.delivery_id)
    async with database.write() as connection:
        await connection.execute(bodies.update().values(body=sealed, headers_size=0))
    [work] = await Inbox(database, clock).claim(1)
    assert work.body == BODY
