"""TABLE of the services that records are sent to.

To add one: a file with its options and its `Remote`, and one row in `REMOTES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, cast

from runtime.extension_table import LazyRow, table_of

if TYPE_CHECKING:
    from runtime.clock import Clock
    from runtime.memory.records.remotes.remote import Remote


class RemoteRow(LazyRow):
    """A kind of remote; `opener_path` names a function that returns the `Remote` for the options of a program, secrets
    resolved, or raises `RemoteOff`."""

    def open(self, options: Mapping[str, object], clock: Clock) -> Remote:
        """Return the client of a remote. Makes no connection. Raises RemoteOff."""
        opening = cast("Callable[[Mapping[str, object], Clock], Remote]", self.opener)
        return opening(options, clock)


REMOTES = table_of(
    "remote",
    [
        RemoteRow(
            name="contextstream",
            title="ContextStream",
            doc='Each record is sent by POST as `{"record": …, "project": …}`, with the key as a bearer token.',
            options_path="runtime.memory.records.remotes.contextstream:ContextStreamOptions",
            opener_path="runtime.memory.records.remotes.contextstream:open_contextstream",
        ),
    ],
)
"""Every kind of remote, by its name in a program."""
