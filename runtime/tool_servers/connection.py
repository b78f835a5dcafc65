"""The connection of a daemon to one server: opened in the background, opened again when it breaks, shared by all who
call its tools."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import structlog

from dslc.blocks.values.quantity import format_duration
from runtime.database.errors import Unavailable
from runtime.tool_servers.errors import CallUncertain, ServerAway
from runtime.tool_servers.server_address import ServerAddress

if TYPE_CHECKING:
    from runtime.tool_servers.session import CallResult, Session, ToolListing

log = structlog.get_logger("symbiont.mcp")

FIRST_WAIT_SECONDS: Final = 1.0
LONGEST_WAIT_SECONDS: Final = 300.0
"""Seconds until a server that failed is started again: the first time, and at most. They double each time."""
STEADY_SECONDS: Final = 60.0
"""A server that was connected this long is started again as at the first time."""
LIST_SECONDS: Final = 15.0
"""Seconds that a connected server has to list its tools again."""
LOOK_AGAIN_SECONDS: Final = 600.0
"""Seconds after which the tools are listed again, also if the server did not say that they changed."""
SETTLE_SECONDS: Final = 1.0
"""Least seconds between two lists of tools: a server may say without end that they changed."""

Start = Callable[[str, Coroutine[Any, Any, None]], "asyncio.Task[None] | None"]
"""Starts a background task with a name; None if it is switched off."""
Authentication = Callable[[], Coroutine[Any, Any, Any]]
"""Returns what authenticates with a stored login; None without one."""


class ServerConnection:
    """A connection to a server. Nothing is started before `start`, or the first call."""

    def __init__(self, address: ServerAddress, *, start_seconds: float, authentication: Authentication) -> None:
        self._address = address
        self.start_seconds = start_seconds
        """Seconds that a start may take, until the tools are listed."""
        self._authentication = authentication
        self._task: asyncio.Task[None] | None = None
        self._session: Session | None = None
        self._changed = asyncio.Event()
        self._settled = asyncio.Event()
        self._again = asyncio.Event()
        self._lost: asyncio.Future[str] | None = None
        self._closed = False
        self.listing: ToolListing | None = None
        """The tools that it had when they were listed last; None before the first time."""
        self.problem: str | None = None
        """The reason why it is not connected, in one line; None while it is, and before the first try."""
        self.server_label = ""
        """The name and version that the server gives itself."""

    @property
    def connected(self) -> bool:
        """True if calls can be made."""
        return self._session is not None and self._lost is not None and not self._lost.done()

    def start(self, start: Start) -> None:
        """Connect, and stay connected, in a task that `start` creates. Does nothing if it was started."""
        if self._task is None:
            self._task = start(f"mcp server {self._address.name}", self._run())

    async def call(self, name: str, arguments: Mapping[str, Any], seconds: float) -> CallResult:
        """Call a tool of the server, within `seconds`. Raises ServerAway if nothing was sent, CallUncertain, and
        ToolFailed."""
        self.start(lambda task, work: asyncio.create_task(work, name=task))
        until = time.monotonic() + seconds
        if self._session is None and self.problem is None:
            # It is being started.
            try:
                async with asyncio.timeout(seconds):
                    await self._settled.wait()
            except TimeoutError:
                raise ServerAway(f"{self._address.name} is still starting") from None
        session, lost = self._session, self._lost
        if session is None or lost is None or lost.done():
            raise ServerAway(f"{self._address.name} is away: {self.problem or 'it is started again'}")
        try:
            return await session.call(name, arguments, max(until - time.monotonic(), 0.0))
        except CallUncertain:
            # Listing the tools shows whether it is slow, or does not answer at all and has to be started again.
            self._changed.set()
            raise
        except ServerAway as error:
            _settle(lost, str(error))
            raise ServerAway(f"{self._address.name} is away: {error}", hint=error.hint) from None

    def restart(self) -> None:
        """Connect again at once, as after a login."""
        if self._lost is not None:
            _settle(self._lost, "it is started again")
        self._again.set()

    async def close(self) -> None:
        """End the connection, and a child process."""
        if self._task is not None:
            # The SDK loses a cancellation that comes while it ends a wait of its own.
            self._closed = True
            if self._lost is not None:
                _settle(self._lost, "it is closed")
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        """Connect, and connect again, until cancelled."""
        wait = FIRST_WAIT_SECONDS
        while True:
            began = time.monotonic()
            reason = await self._connect()
            task = asyncio.current_task()
            if self._closed or (task is not None and task.cancelling()):
                # A connection that breaks meanwhile replaces the cancellation by its own error.
                raise asyncio.CancelledError
            if time.monotonic() - began >= STEADY_SECONDS:
                wait = FIRST_WAIT_SECONDS
            if reason != self.problem:
                log.warning("mcp_server_away", server=self._address.name, reason=reason)
            self._session, self.problem = None, reason
            self._settled.set()
            self._again.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._again.wait()
            wait = min(wait * 2, LONGEST_WAIT_SECONDS)

    async def _connect(self) -> str:
        """Connect, and return the reason when the connection has ended. Raises nothing but the cancellation."""
        # The SDK takes a second, which no request should wait for.
        session_module = await asyncio.to_thread(import_module, "runtime.tool_servers.session")
        loop = asyncio.get_running_loop()
        self._lost = lost = loop.create_future()
        self._changed.clear()
        try:
            auth = await self._authentication()
            async with opened(self._address, self.start_seconds, auth, lost, self._changed.set) as session:
                reason = await self._list_tools(session, lost)
        except Unavailable as error:
            reason = f"the login cannot be read: {error.line()}"
        except Exception as error:
            # What broke the connection may have come as an error of a task inside; the first reason counts.
            reason = lost.result() if lost.done() else session_module.failure_reason(self._address, error)
        finally:
            self._session = None
            _settle(lost, "")
        return reason

    async def _list_tools(self, session: Session, lost: asyncio.Future[str]) -> str:
        """List the tools now and whenever they change, until the connection is lost. Returns the reason."""
        seconds = self.start_seconds
        while True:
            self._changed.clear()
            try:
                async with asyncio.timeout(seconds):
                    listing = await session.tools()
            except (ServerAway, TimeoutError) as error:
                return (
                    lost.result()
                    if lost.done()
                    else str(error) or f"it did not list its tools in {format_duration(seconds)}"
                )
            seconds = LIST_SECONDS
            if self.listing is not None and listing != self.listing:
                log.info("mcp_tools_changed", server=self._address.name, tools=len(listing.tools))
            self.listing = listing
            if self._session is None:
                self._session, self.problem, self.server_label = session, None, session.server_label
                self._settled.set()
                log.info("mcp_server_connected", server=self._address.name, tools=len(listing.tools))
            changed = asyncio.create_task(self._changed.wait(), name=f"changes of mcp server {self._address.name}")
            try:
                await asyncio.sleep(SETTLE_SECONDS)
                waiting: set[asyncio.Future[Any]] = {lost, changed}
                await asyncio.wait(waiting, timeout=LOOK_AGAIN_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()
            if lost.done():
                return lost.result()


def _settle(lost: asyncio.Future[str], reason: str) -> None:
    if not lost.done():
        lost.set_result(reason)


@asynccontextmanager
async def opened(
    address: ServerAddress,
    seconds: float,
    auth: Any = None,
    lost: asyncio.Future[str] | None = None,
    on_change: Callable[[], None] = lambda: None,
) -> AsyncIterator[Session]:
    """Connect to a server within `seconds`, while inside; see `Session.open`. `lost` gets the reason when the server
    ends the connection."""
    from runtime.tool_servers.session import Session

    address.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # npx runs the packages of the project that it is in, and looks for one upward: this folder is one of its own.
    (address.folder / "package.json").write_text('{"private": true}\n')

    def end(reason: str) -> None:
        if lost is not None:
            _settle(lost, reason)

    def line(text: str) -> None:
        log.info("mcp_server_said", server=address.name, line=text)

    opening: AbstractAsyncContextManager[Session] = Session.open(
        address, seconds=seconds, auth=auth, on_end=end, on_change=on_change, on_line=line
    )
    async with opening as session:
        yield session
