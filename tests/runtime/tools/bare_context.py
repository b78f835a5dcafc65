"""A context for tools that use no state."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from runtime.identity.caller import Caller
from runtime.tools.context import ActingAgent


def bare_context(caller: Caller, acting: ActingAgent | None = None) -> Any:
    """Return a context with only a caller, and perhaps an agent that acts."""
    return SimpleNamespace(caller=caller, acting=acting, on_called=lambda tool, error: None)
