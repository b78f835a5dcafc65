"""Talk over `/v1` with an agent of this process, whose model is scripted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from runtime.api.rest.agent_streams import AgentStreams
from runtime.api.rest.authentication import Authenticator
from runtime.api.rest.handler import ApiRequest, ApiResponse, RestHandler
from runtime.clock import milliseconds
from runtime.database.schema import OWNER, inputs
from runtime.identity import users
from runtime.identity.caller import Scope
from runtime.switches import ALL_ON
from runtime.threads.messages import Message
from runtime.threads.turns.turn import LIVING
from tests.runtime.agents.loop.acting import Acting, acting
from tests.runtime.agents.scripted import ScriptedModel
from tests.runtime.webhooks.candidates import rows

EVENTS = "text/event-stream"
CHAT = "/v1/agent/chat"


class Event(NamedTuple):
    """An event as a client receives it."""

    name: str
    data: dict[str, Any]
    id: str | None


class Talking:
    """A client of `/v1`, and the agent `helper`. `prefix`: of the names of the users, if tests share the agent."""

    def __init__(self, agent: Acting, model: ScriptedModel | None = None, prefix: str = "") -> None:
        app = agent.app
        self.agent = agent
        self._model = model
        self.users = {"owner": OWNER}
        """Ids of the users by their names here."""
        self._prefix = prefix
        self.streams = AgentStreams(app.state.database, app.state.services)
        self.rest = RestHandler(
            app.open_context, Authenticator(app.state.tokens, app.state.clock), ALL_ON, self.streams
        )

    async def token(self, user: str = "owner", *scopes: Scope) -> str:
        """Return a token of `user`, who is added if missing."""
        state = self.agent.app.state
        if user not in self.users:
            self.users[user] = await users.add(state.database, f"{self._prefix}{user}", milliseconds(state.clock))
        made = await state.tokens.create(self.users[user], label="test", scopes=scopes or ("write",))
        assert made is not None
        return made.token

    @property
    def model(self) -> ScriptedModel:
        """The model of an agent that tests share."""
        assert self._model is not None
        return self._model

    @property
    def user_id(self) -> str:
        """The user `owner`."""
        return self.users["owner"]

    async def messages(self) -> list[Message]:
        """Return what was said in the main thread of the user."""
        return await self.agent.messages(await self.agent.main(self.user_id))

    async def of_new_users(self, prefix: str) -> Talking:
        """Return a client of the same agent whose users have no others' names, with nothing said."""
        self.model.bodies.clear()
        talk = Talking(self.agent, self.model, prefix)
        del talk.users["owner"]
        await talk.token("owner")
        return talk

    async def is_idle(self) -> None:
        """Wait until no message is at work."""
        async with asyncio.timeout(60):
            while any(row.state in LIVING for row in await rows(self.agent.app.state.database, inputs)):
                await asyncio.sleep(0.02)

    async def ask(
        self,
        token: str,
        method: str,
        path: str,
        body: Any = None,
        *,
        accept: str | None = None,
        last: str | None = None,
        query: str = "",
    ) -> ApiResponse:
        """Return the response of `/v1`."""
        sent = b"" if body is None else json.dumps(body).encode()

        async def read(_largest: int) -> bytes:
            return sent

        bearer = [f"Bearer {token}"]
        return await self.rest.answer(
            ApiRequest(method, path, query, bearer, "application/json", accept, None, read, last)
        )

    async def json(self, token: str, method: str, path: str, body: Any = None, **given: Any) -> tuple[int, Any]:
        """Return the status and the JSON of a response."""
        reply = await self.ask(token, method, path, body, **given)
        return reply.status, json.loads(reply.body)

    @asynccontextmanager
    async def stream(
        self, token: str, path: str, body: Any = None, **given: Any
    ) -> AsyncIterator[tuple[ApiResponse, AsyncIterator[Event]]]:
        """Yield the response with a stream, and its events."""
        method = "GET" if body is None else "POST"
        reply = await self.ask(token, method, path, body, accept=EVENTS, **given)
        assert reply.stream is not None, reply
        async with aclosing(reply.stream) as chunks:
            yield reply, events_in(chunks)

    async def follow(self, token: str, path: str, body: Any = None, **given: Any) -> list[Event]:
        """Return all events of a stream that ends."""
        async with asyncio.timeout(60), self.stream(token, path, body, **given) as (_, events):
            return [event async for event in events]


async def events_in(chunks: AsyncIterator[bytes]) -> AsyncIterator[Event]:
    """Yield the events in a stream, as a client reads it; an id without an event is one without a name."""
    text = ""
    async for chunk in chunks:
        text += chunk.decode()
        *whole, text = text.split("\n\n")
        for block in whole:
            lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
            if lines:
                yield Event(lines.get("event", ""), json.loads(lines.get("data", "{}")), lines.get("id"))


async def until(events: AsyncIterator[Event], accepts: Callable[[Event], bool]) -> list[Event]:
    """Return the events up to the first that is as wanted."""
    found = []
    async with asyncio.timeout(60):
        async for event in events:
            found.append(event)
            if accepts(event):
                return found
    raise AssertionError(found)


def is_named(*names: str) -> Callable[[Event], bool]:
    return lambda event: event.name in names


@asynccontextmanager
async def talking(folder: Path, text: str, model: ScriptedModel | None = None) -> AsyncIterator[Talking]:
    """Serve `/v1` over the agents of a program until the end of the block."""
    async with acting(folder, text) as agent:
        yield Talking(agent, model)
