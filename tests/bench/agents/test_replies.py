"""The measurement of replies measures what it says."""

from __future__ import annotations

from bench.agents.replies import PIECES, REPLIES, VALID, measure
from runtime.agents.reply.reading import read_reply
from runtime.models.request import Reply
from tests.runtime.agents.reply.toolset import TOOLS


def test_every_reply_and_every_piece_is_measured() -> None:
    result = measure(characters=2_000, rounds=1)
    assert [row.name for row in result.small] == list(REPLIES)
    assert [row.name for row in result.large] == [row.name for row in result.streamed] == list(PIECES)


def test_the_forms_of_the_reply_have_its_calls() -> None:
    calls = read_reply(Reply(text=VALID), TOOLS).calls
    for name in ("in a fence", "Python", "two tagged calls"):
        assert read_reply(Reply(text=REPLIES[name]), TOOLS).calls == calls
