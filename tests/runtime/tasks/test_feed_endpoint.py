"""The calendar feed of tasks: its URL opens the tasks of one user, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from email.utils import format_datetime, parsedate_to_datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientResponse, web
from aiohttp.test_utils import TestClient, TestServer
from icalendar import Calendar
from structlog.testing import capture_logs

from runtime.api.rest.authentication import Authenticator
from runtime.clock import milliseconds
from runtime.daemon.listeners.feed_endpoint import ROUTE, FeedEndpoint
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.errors import NotFound
from runtime.identity import users
from runtime.identity.tokens import TokenRefused, Tokens, make_token
from runtime.tasks import feeds as feed_store
from runtime.tasks.feeds import PATH, TaskFeeds
from runtime.tasks.store import TaskStore
from runtime.tasks.task import Actor, Due
from tests.clocks import ManualClock
from tests.databases import migrated

USER = Actor("user")


class Feed:
    """A listener with the feeds of a database."""

    def __init__(self, database: Database, clock: ManualClock, client: TestClient[Any, Any]) -> None:
        self.database = database
        self.clock = clock
        self.client = client
        self.feeds = TaskFeeds(database, clock)
        self.tasks = TaskStore(database, clock)
        self.tokens = Tokens(database, clock)

    async def add(self, title: str, user_id: str = "owner", **given: Any) -> str:
        return (await self.tasks.create(user_id, USER, title=title, **given)).id

    async def get(self, path: str, **headers: str) -> ClientResponse:
        return await self.client.get(path, headers={name.replace("_", "-"): value for name, value in headers.items()})

    async def titles(self, path: str) -> list[str]:
        answer = await self.get(path)
        assert answer.status == 200
        return [str(each["SUMMARY"]) for each in Calendar.from_ical(await answer.read()).subcomponents]


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """On SQLite only: the store is tested on each database."""
    return f"sqlite:///{migrated(tmp_path / 'symbiont.db')}"


@pytest.fixture
async def feed(database: Database, clock: ManualClock) -> AsyncIterator[Feed]:
    application = web.Application()
    bearer = Authenticator(Tokens(database, clock), clock)
    application.router.add_route("*", ROUTE, FeedEndpoint(TaskFeeds(database, clock), bearer, clock).answer)
    async with TestClient(TestServer(application)) as client:
        yield Feed(database, clock, client)


async def test_a_program_reads_the_tasks_by_the_url_alone(feed: Feed) -> None:
    await feed.add("Pay rent", due=Due(milliseconds(feed.clock) + 1000, None))
    await feed.add("Read")
    path = (await feed.feeds.open("owner")).path
    answer = await feed.get(path)
    assert answer.headers["Content-Type"] == "text/calendar; charset=utf-8"
    assert answer.headers["Cache-Control"] == "private, no-cache"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert await feed.titles(path) == ["Pay rent", "Read"]
    assert await feed.titles(f"{path}?as=events") == ["Pay rent"]
    head = await feed.client.head(path)
    assert (head.status, head.headers["ETag"]) == (200, answer.headers["ETag"])
    assert (await feed.feeds.open("owner")).used_at == milliseconds(feed.clock)


async def test_what_did_not_change_is_not_sent_again(feed: Feed) -> None:
    task_id = await feed.add("Pay rent")
    await feed.add("Read")
    path = (await feed.feeds.open("owner")).path
    first = await feed.get(path)
    tag, changed = first.headers["ETag"], first.headers["Last-Modified"]
    feed.clock.advance(60)
    for headers in ({"If_None_Match": f'"x", W/{tag}'}, {"If_Modified_Since": changed}, {"If_None_Match": "*"}):
        again = await feed.get(path, **headers)
        assert (again.status, await again.read()) == (304, b"")
        assert (again.headers["ETag"], again.headers["Last-Modified"]) == (tag, changed)
    # A tag goes before a time.
    assert (await feed.get(path, If_None_Match='"x"', If_Modified_Since=changed)).status == 200
    await feed.tasks.delete("owner", task_id, USER)
    for headers in ({"If_None_Match": tag}, {"If_Modified_Since": changed}):
        new = await feed.get(path, **headers)
        assert new.status == 200
        assert parsedate_to_datetime(new.headers["Last-Modified"]) > parsedate_to_datetime(changed)
    later = format_datetime(parsedate_to_datetime(changed) + timedelta(days=1), usegmt=True)
    assert (await feed.get(path, If_Modified_Since=later)).status == 200


async def test_both_forms_of_a_feed_have_tags_of_their_own(feed: Feed) -> None:
    path = (await feed.feeds.open("owner")).path
    tags = [(await feed.get(f"{path}{query}")).headers["ETag"] for query in ("", "?as=todos", "?as=events")]
    assert tags[0] == tags[1] != tags[2]


async def test_a_feed_has_open_tasks_and_those_that_ended_lately(feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    now = milliseconds(feed.clock)
    old = await feed.add("Ended long ago")
    await feed.tasks.update("owner", old, {"status": "completed"}, USER)
    feed.clock.advance(31 * 86_400)
    ended = await feed.add("Ended")
    await feed.tasks.update("owner", ended, {"status": "cancelled"}, USER)
    for number in range(3):
        await feed.add(f"Open {number}", due=Due(now - number, None))
    path = (await feed.feeds.open("owner")).path
    assert await feed.titles(path) == ["Open 2", "Open 1", "Open 0", "Ended"]
    monkeypatch.setattr(feed_store, "MOST", 2)
    assert await feed.titles(path) == ["Open 2", "Open 1"]


async def test_only_the_tasks_of_its_user_are_in_a_feed(feed: Feed) -> None:
    ada = await users.add(feed.database, "ada", milliseconds(feed.clock))
    await feed.add("Of Ada", ada)
    await feed.add("Of the owner")
    assert await feed.titles((await feed.feeds.open("owner")).path) == ["Of the owner"]
    assert await feed.titles((await feed.feeds.open(ada)).path) == ["Of Ada"]


async def test_a_rotated_or_closed_feed_is_gone_at_once(feed: Feed) -> None:
    first = await feed.feeds.open("owner")
    assert (await feed.feeds.open("owner")).token == first.token
    second = await feed.feeds.rotate("owner")
    assert second.token != first.token
    assert [(await feed.get(each.path)).status for each in (first, second)] == [404, 200]
    assert await feed.feeds.close("owner")
    assert (await feed.get(second.path)).status == 404
    assert not await feed.feeds.close("owner")
    assert (await feed.feeds.open("owner")).token not in {first.token, second.token}


@pytest.mark.parametrize("kept", [False, True])
async def test_the_feed_of_a_removed_user_is_gone_at_once(feed: Feed, kept: bool) -> None:
    now = milliseconds(feed.clock)
    ada = await users.add(feed.database, "ada", now)
    path = (await feed.feeds.open(ada)).path
    assert (await feed.get(path)).status == 200
    await feed.database.transact(lambda connection: users.remove(connection, ada, None if kept else now))
    assert (await feed.get(path)).status == 404
    with pytest.raises(NotFound):
        await feed.feeds.open(ada)


async def test_neither_token_opens_what_the_other_does(feed: Feed) -> None:
    made = await feed.tokens.create("owner", label="", scopes=["admin"])
    assert made is not None
    token = (await feed.feeds.open("owner")).token
    assert (await feed.get(f"{PATH}/{made.token}.ics")).status == 404
    with pytest.raises(TokenRefused):
        await feed.tokens.caller(token)
    # Nor does a token in a header open a feed.
    assert (await feed.get(f"{PATH}/{make_token()}.ics", Authorization=f"Bearer {made.token}")).status == 404


async def test_wrong_paths_have_one_answer(feed: Feed) -> None:
    token = (await feed.feeds.open("owner")).token
    wrong = ["", "/", "/.ics", "/x.ics", f"/{make_token()}.ics", f"/{token}", f"/{token}.ics/", f"/x/{token}.ics"]
    for path in wrong:
        answer = await feed.get(PATH + path)
        problem = await answer.json(content_type="application/problem+json")
        assert (answer.status, problem["detail"]) == (404, "there is no such feed"), path
        assert answer.headers["Cache-Control"] == "no-store"


async def test_what_a_feed_does_not_do_is_refused(feed: Feed) -> None:
    path = (await feed.feeds.open("owner")).path
    posted = await feed.client.post(path)
    assert (posted.status, posted.headers["Allow"]) == (405, "GET, HEAD")
    assert (await feed.get(f"{path}?as=html")).status == 400


async def test_the_token_is_in_no_log(feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    found = await feed.feeds.open("owner")
    wrong = make_token()
    failures: list[Exception] = [RuntimeError(found.token), Unavailable(f"no answer to {found.token}")]

    async def failing(*_: object) -> None:
        raise failures.pop(0)

    with capture_logs() as logs:
        for number in range(100):
            assert (await feed.get(f"{PATH}/{wrong}.ics?{number}")).status == 404
        monkeypatch.setattr(TaskFeeds, "content", failing)
        broken, away = [await feed.get(found.path) for _ in range(2)]
    assert (broken.status, away.status, away.headers["Retry-After"]) == (500, 503, "5")
    assert 1 < len(logs) < 30, "refused ones are logged, and bounded"
    shown = [repr(found), repr(logs), await broken.text(), await away.text()]
    assert not any(token in text for token in (found.token, wrong) for text in shown)


async def test_the_token_is_not_in_the_database_in_the_clear(feed: Feed) -> None:
    token = (await feed.feeds.open("owner")).token
    async with feed.database.read() as connection:
        (row,) = (await connection.exec_driver_sql("SELECT * FROM task_feeds")).all()
    assert token not in repr(row)
    assert token.encode() not in b"".join(bytes(each) for each in row if isinstance(each, bytes | memoryview))
