"""The calendar feed of tasks, `/v1/tasks/feed/TOKEN.ics`: its URL is all that a calendar program needs.

The token is in the path, so nothing of a request is written anywhere: not to a log, a metric or an error.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from types import MappingProxyType
from typing import Final

import structlog
from aiohttp import web

from runtime.api.rest.authentication import Authenticator
from runtime.api.rest.problem import Problem, problem_of
from runtime.clock import Clock
from runtime.crypto import Unsealable
from runtime.daemon.listeners.origin_check import problem_response
from runtime.errors import SymbiontError
from runtime.identity.tokens import TokenRefused
from runtime.tasks.calendar import CONTENT_TYPE, Form
from runtime.tasks.feeds import PATH, FeedUser, TaskFeeds

log = structlog.get_logger("symbiont.api")

ROUTE: Final = PATH + "{rest:(?:/.*)?}"
_SUFFIX: Final = ".ics"
_FORMS: Final[Mapping[str, Form]] = MappingProxyType({"": "todos", "as=todos": "todos", "as=events": "events"})
_MOST_VERSIONS: Final = 10_000
"""Feeds whose time of change is known."""
_AT_ONCE: Final = 2
"""Calendars that are read and written at the same time: each may have 20 MB of descriptions."""
_HEADERS: Final = MappingProxyType(
    {
        # A client may keep it, and asks each time whether it changed.
        "Cache-Control": "private, no-cache",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
)


class FeedEndpoint:
    """The handler of all paths below `PATH`."""

    def __init__(self, feeds: TaskFeeds, bearer: Authenticator, clock: Clock) -> None:
        self._feeds = feeds
        self._bearer = bearer
        self._clock = clock
        self._versions: OrderedDict[tuple[FeedUser, Form], tuple[str, int]] = OrderedDict()
        """The tag of each calendar, and since when it is known, in Unix seconds."""
        self._writing = asyncio.Semaphore(_AT_ONCE)

    async def answer(self, request: web.Request) -> web.Response:
        """Answer a request; raises nothing unless it is cancelled."""
        try:
            return await self._answer(request)
        except Problem as problem:
            return problem_response(problem)
        except Unsealable:
            log.warning("task_feed_unreadable")
            return problem_response(Problem("internal", "the tasks cannot be read; see the daemon's log"))
        except SymbiontError as error:
            return problem_response(problem_of(error))
        except Exception as error:
            # Without a traceback, whose locals and messages may have the token.
            log.error("task_feed_failed", error=type(error).__name__)
            return problem_response(Problem("internal", "see the daemon's log"))

    async def _answer(self, request: web.Request) -> web.Response:
        if request.method not in {"GET", "HEAD"}:
            raise Problem("method_not_allowed", "here are GET, HEAD", headers=(("Allow", "GET, HEAD"),))
        name = request.rel_url.raw_path.removeprefix(f"{PATH}/")
        user = await self._feeds.user_of(name.removesuffix(_SUFFIX)) if name.endswith(_SUFFIX) else None
        if user is None:
            self._bearer.note(request.remote, TokenRefused("no calendar feed has it"))
            raise Problem("not_found", "there is no such feed", hint="`symbi task feed` prints the URL")
        form = _FORMS.get(request.rel_url.raw_query_string)
        if form is None:
            raise Problem("malformed", "a feed has only the parameter as=events")
        async with self._writing:
            content = await self._feeds.content(user)
            tag = content.tag(form)
            changed = self._changed_at(user, form, tag)
            headers = {**_HEADERS, "ETag": tag, "Last-Modified": changed}
            if _is_known(request, tag, changed):
                return web.Response(status=304, headers=headers)
            body = await asyncio.to_thread(self._feeds.calendar, content, form)
        return web.Response(body=body, headers={**headers, "Content-Type": CONTENT_TYPE})

    def _changed_at(self, user: FeedUser, form: Form, tag: str) -> str:
        """Return the time of the calendar's last change that this process knows. Each content has a later second than
        the one before, also if tasks were deleted."""
        known, at = self._versions.pop((user, form), ("", 0))
        if known != tag:
            at = max(int(self._clock.now()), at + 1)
        self._versions[user, form] = tag, at
        if len(self._versions) > _MOST_VERSIONS:
            self._versions.popitem(last=False)
        return format_datetime(datetime.fromtimestamp(at, UTC), usegmt=True)


def _is_known(request: web.Request, tag: str, changed: str) -> bool:
    """True if the client has the calendar (RFC 9110 section 13.2.2). A time is compared exactly: another daemon may
    know the content since another second."""
    if given := request.headers.getall("If-None-Match", []):
        tags = [each.strip().removeprefix("W/") for line in given for each in line.split(",")]
        return tag in tags or "*" in tags
    return request.headers.get("If-Modified-Since") == changed
