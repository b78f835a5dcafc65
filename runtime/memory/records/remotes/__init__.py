"""TABLE of the services that records are sent to.

To add one: a file with its options and its `Remote`, and one row in `REMOTES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel

from runtime.rows import by_name

if TYPE_CHECKING:
    from runtime.clock import Clock
    from runtime.memory.records.remotes.remote import Remote


@dataclass(frozen=True)
class RemoteRow:
    """A kind of remote. `options` and `opening` are `module:name`, loaded when they are first needed.

    `opening` gives the `Remote` for the options of a program, secrets resolved, or raises `RemoteOff`.
    """

    name: str
    title: str
    doc: str
    options_path: str
    opening: str
    doc_url: str | None = None
    extra: str | None = None

    @property
    def options(self) -> type[BaseModel]:
        """The model of the row's options."""
        return cast("type[BaseModel]", _load(self.options_path))

    def open(self, options: Mapping[str, object], clock: Clock) -> Remote:
        """What sends to it. Nothing is connected yet. Raises RemoteOff."""
        opening = cast("Callable[[Mapping[str, object], Clock], Remote]", _load(self.opening))
        return opening(options, clock)


REMOTES = by_name(
    "remote",
    [
        RemoteRow(
            name="contextstream",
            title="ContextStream",
            doc='Each record is sent by POST as `{"record": …, "project": …}`, with the key as a bearer token.',
            options_path="runtime.memory.records.remotes.contextstream:ContextStreamOptions",
            opening="runtime.memory.records.remotes.contextstream:open_contextstream",
        ),
    ],
)
"""Every kind of remote by the name that a program gives it."""


def _load(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
