"""The backend of `symbi mcp`: the process that owns the root, which is this process if there is no other."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from runtime.cli.terminal.screen import echo
from runtime.daemon.process.root import PROGRAM_FILE, Root, RootInUse, has_program
from runtime.errors import SymbiontError
from runtime.mcp import listing
from runtime.mcp.admin_link import OwnerGone, ask
from runtime.mcp.backend import BackendAnswer, BackendFailure, McpBackend, Progress
from runtime.mcp.side_thread import SideThread
from runtime.tool_groups import COLLECTIONS, ToolChoice

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from runtime.daemon.program.app import App
    from runtime.identity.caller import Scope

T = TypeVar("T")

COMMAND: Final = "symbi mcp"
WAIT_SECONDS: Final = 30
"""Seconds that a call waits for an owner that is starting or stopping."""
LOOK_SECONDS: Final = 0.1
_CHEAPEST: Final = "symbiont://memory-types"
"""A resource that every owner returns at once; read to learn whether there is one."""


class RemoteBackend:
    """Calls and reads over the admin socket of the process that owns the root, see `McpBackend`."""

    def __init__(self, address: str, identity: str) -> None:
        self.address = address
        self.identity = identity

    async def has_tables(self) -> bool:
        """See `McpBackend`. Raises what `call` raises."""
        return (await ask(self.address, self.identity, "table_status", {}))["problem"] is None

    async def call(self, name: str, arguments: Mapping[str, Any], progress: Progress | None) -> BackendAnswer:
        """Return the answer of a tool. Raises BackendFailure and OwnerGone, like `read`."""
        return _answer(await ask(self.address, self.identity, name, arguments, progress))

    async def read(self, uri: str) -> BackendAnswer:
        """Return the content of a resource."""
        return _answer((await ask(self.address, self.identity, "resource_read", {"uri": uri}))["content"])


class FailoverBackend:
    """`McpBackend` over the current owner of the root. A context manager; at its end the root is released."""

    def __init__(self, root: Root, paths: Sequence[Path], on_failure: Callable[[], None]) -> None:
        self._root = root
        self._paths = paths
        self._on_failure = on_failure
        self._stack = AsyncExitStack()
        self._own: McpBackend | None = None
        self._remote: RemoteBackend | None = None
        self._opening: asyncio.Future[bool] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)
        await self._stack.aclose()

    async def prepare(self) -> None:
        """Own the root, if no other process does, before the first call; print the reason if that fails."""
        try:
            await self._call_owner(lambda backend: backend.read(_CHEAPEST))
        except BackendFailure as failed:
            echo(f"symbi mcp: {failed.line()}", err=True)

    @property
    def limit(self) -> ToolChoice | None:
        """See `McpBackend`. This process was started by the root's own user."""
        return None

    def may(self, _scope: Scope) -> bool:
        """See `McpBackend`."""
        return True

    async def default_choice(self) -> ToolChoice:
        """See `McpBackend`. A program that nobody runs yet is loaded first."""
        if self._own is None and self._current_owner() is None:
            if not self._paths and not await asyncio.to_thread(has_program, self._root):
                return COLLECTIONS
            try:
                await self.read(_CHEAPEST)
            except BackendFailure:
                # Each call says why.
                return COLLECTIONS
        if self._own is not None:
            return await self._own.default_choice()
        # Recorded by the owner.
        words = self._root.read(PROGRAM_FILE).get("tools")
        return ToolChoice.of(words) if isinstance(words, list) else COLLECTIONS

    async def has_tables(self) -> bool:
        """See `McpBackend`. With a SQLite that nobody has opened yet, the list does not wait until it is."""
        if self._own is None and self._current_owner() is None and not os.environ.get("SYMBIONT_DATABASE"):
            return True
        try:
            return await self._call_owner(lambda backend: backend.has_tables())
        except BackendFailure:
            # Each call says why.
            return True

    async def call(self, name: str, arguments: Mapping[str, Any], progress: Progress | None) -> BackendAnswer:
        """See `McpBackend`."""
        return await self._call_owner(lambda backend: backend.call(name, arguments, progress), (name, arguments))

    async def read(self, uri: str) -> BackendAnswer:
        """See `McpBackend`."""
        return await self._call_owner(lambda backend: backend.read(uri))

    async def _call_owner(
        self,
        work: Callable[[McpBackend | RemoteBackend], Awaitable[T]],
        called: tuple[str, Mapping[str, Any]] | None = None,
    ) -> T:
        """Return the result of `work` with the owner's backend; `called`: the tool that it calls, and the arguments.
        Raises BackendFailure."""
        loop = asyncio.get_running_loop()
        end = loop.time() + WAIT_SECONDS
        while self._own is None:
            remote = self._current_owner()
            if remote is not None:
                try:
                    return await work(remote)
                except OwnerGone as gone:
                    if gone.was_sent and called is not None and not self._repeatable(*called):
                        raise BackendFailure(_owner_stopped(called[0])) from None
            if await self._own_root():
                break
            if loop.time() > end:
                raise BackendFailure(_owner_silent(self._root))
            await asyncio.sleep(LOOK_SECONDS)
        assert self._own is not None
        return await work(self._own)

    def _repeatable(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """True if a tool may be called again when it is unknown whether the first call was executed."""
        row = listing.tool(name, self.may)
        return row is not None and (row.repeatable or row.only_reads(arguments))

    def _current_owner(self) -> RemoteBackend | None:
        """Return the owner recorded in the root, if any."""
        address = self._root.socket()
        if address is None:
            return None
        if self._remote is None or self._remote.address != address:
            self._remote = RemoteBackend(address, self._root.identity)
        return self._remote

    async def _own_root(self) -> bool:
        """Own the root from now on; False if another process does. Raises BackendFailure if it cannot be opened."""
        if self._opening is None or self._opening.done():
            self._opening = asyncio.ensure_future(self._open())
        try:
            # A cancelled call must not cancel the opening, for which others wait.
            return await asyncio.shield(self._opening)
        except (SymbiontError, OSError) as error:
            hint = error.hint if isinstance(error, SymbiontError) else None
            failure = {"code": "provider_unavailable", "message": str(error), "hint": hint}
            raise BackendFailure({key: value for key, value in failure.items() if value}) from None

    async def _open(self) -> bool:
        if self._own is not None:
            return True
        try:
            # In a thread: loading all modules takes longer than a client's first request may wait.
            kept = await SideThread("loading").call(_keep_root, self._root, self._paths, self._on_failure)
            app = await self._stack.enter_async_context(kept)
        except RootInUse:
            return False
        # Imported by `_keep_root` already; importing here would block concurrent calls.
        from runtime.identity.caller import OWNER_CALLER
        from runtime.mcp.local_backend import LocalBackend

        self._own = LocalBackend(app.open_context, OWNER_CALLER)
        return True


def _keep_root(root: Root, paths: Sequence[Path], on_failure: Callable[[], None]) -> AbstractAsyncContextManager[App]:
    import runtime.mcp.local_backend  # noqa: F401
    from runtime.daemon.standalone import keep

    return keep(root, paths, command=COMMAND, on_failure=on_failure)


def _answer(content: Any) -> BackendAnswer:
    return BackendAnswer(json.dumps(content, ensure_ascii=False, separators=(",", ":")), content)


def _owner_stopped(tool: str) -> dict[str, Any]:
    return {
        "code": "provider_unavailable",
        "message": f"the process that owns the root ended: {tool} may have been done or not",
        "hint": "check whether it was done before you call it again",
    }


def _owner_silent(root: Root) -> dict[str, Any]:
    return {
        "code": "provider_unavailable",
        "message": f"the process that owns {root.folder} does not respond on its admin socket",
        "hint": "is it starting or stopping? call again",
    }
