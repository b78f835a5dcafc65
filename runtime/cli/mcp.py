"""`symbi mcp`: serves all tools to clients of the Model Context Protocol that start a process."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from runtime.cli.terminal.output import root_option
from runtime.daemon.process.root import Root, locate, make, named_folder
from runtime.errors import UsageError
from runtime.tool_groups import ToolChoice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp.server.context import CallNext, HandlerResult, ServerMiddleware

    from runtime.cli.mcp_backend import FailoverBackend
    from runtime.mcp.server import Request

AFTER_SECONDS: Final = 0.1
"""Seconds without requests after which the root is opened; earlier that would delay the first responses."""


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[PATH]...")
@click.option(
    "--tools",
    metavar="GROUP[,GROUP]...",
    help="The tools to list: collections, memory, agents, webhooks, tasks, tables, kv, all of these, or approvals; "
    "`read-only` leaves out what changes something.  [default: collections, and what the program has of memory, agents "
    "and webhooks]",
)
@click.option("--output-schemas", is_flag=True, help="List the schemas of results too.")
@root_option
def mcp(paths: tuple[Path, ...], tools: str | None, output_schemas: bool, root: Path | None) -> None:
    """Serve the Model Context Protocol on standard input and output.

    If a daemon owns the root, this command forwards requests to it. Otherwise it owns the root itself and runs the
    programs under each PATH (default: those that the root ran last, if any); other commands then go through it.
    The folder of --root or SYMBIONT_ROOT is created if it does not exist.
    """
    # Files of this process are for its own user only.
    os.umask(0o077)
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path}: no such file or folder")
    choice = None if tools is None else ToolChoice.read(tools)
    code = _serve(_root(root), [path.absolute() for path in paths], choice, output_schemas=output_schemas)
    # Not by the interpreter's exit, which joins threads that may wait for a client.
    logging.shutdown()
    sys.stderr.flush()
    os._exit(code)


def _root(explicit: Path | None) -> Root:
    """Return the named root, which is created if necessary, or the one found. Raises UsageError."""
    folder = named_folder(os.environ, explicit)
    if folder is None:
        root = locate(Path.cwd(), os.environ)
        if root is None:
            raise UsageError(
                f"no root here: {Path.cwd()} contains no .symbi folder",
                hint="name a folder for the memories: symbi mcp --root ~/memory",
            )
        return root
    # No shell expands `~` in a configuration file.
    folder = _expand_home(explicit or Path(os.environ.get("SYMBIONT_ROOT") or folder)).absolute()
    return make(folder, os.environ, folder)


def _expand_home(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError:
        raise UsageError(f"--root {path}: no such home folder", hint="write the absolute path") from None


def _serve(root: Root, paths: Sequence[Path], choice: ToolChoice | None, *, output_schemas: bool) -> int:
    """Serve until the client disconnects or a signal arrives; return the exit code."""
    import asyncio
    import gc
    import signal

    # Loaded modules stay: scanning them for cycles would delay the start, and later calls.
    gc.disable()
    import uvloop

    from runtime.cli.mcp_backend import FailoverBackend
    from runtime.mcp.server import McpClient, make_server
    from runtime.mcp.stdio import serve_stdio

    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    gc.enable()
    failed = False

    async def serve() -> None:
        nonlocal failed
        serving = asyncio.current_task()
        assert serving is not None

        def fail() -> None:
            nonlocal failed
            failed = True
            serving.cancel()

        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, serving.cancel)
        async with FailoverBackend(root, paths, fail) as backend:
            client = McpClient(backend, choice, output_schemas)
            server = make_server(lambda _request: client)
            server.middleware.append(_open_early(backend))
            await serve_stdio(server)

    try:
        uvloop.run(serve())
    except asyncio.CancelledError:
        return int(failed)
    return int(failed)


def _open_early(backend: FailoverBackend) -> ServerMiddleware[Any]:
    """Return a middleware that opens the root after the client's first requests, without waiting for a call."""
    import asyncio

    waiting: asyncio.TimerHandle | None = None
    begun: asyncio.Future[None] | None = None

    def begin() -> None:
        nonlocal begun
        begun = asyncio.ensure_future(backend.prepare())

    async def early(ctx: Request, call_next: CallNext) -> HandlerResult:
        nonlocal waiting
        try:
            return await call_next(ctx)
        finally:
            if waiting is not None:
                waiting.cancel()
            if begun is None:
                waiting = asyncio.get_running_loop().call_later(AFTER_SECONDS, begin)

    return early
