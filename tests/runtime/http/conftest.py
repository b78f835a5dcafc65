"""A real listener on a real socket, on both event loops: uvloop, which the daemon uses, and asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import uvloop

from runtime.http.server import Handler
from tests.runtime.http.peer import Serve, Serving, echo


@pytest.fixture(params=["asyncio", "uvloop"])
def serve(request: pytest.FixtureRequest) -> Iterator[Serve]:
    """Start listeners, each in its own thread; they stop at the end of the test."""
    new_loop: Callable[[], asyncio.AbstractEventLoop] = (
        uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop
    )
    with ExitStack() as stack:

        def start(handler: Handler = echo, **limits: Any) -> Serving:
            return stack.enter_context(Serving.started(new_loop, handler, limits))

        yield start
