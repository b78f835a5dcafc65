"""The remote that a program configures: validates and compares its options."""

from __future__ import annotations

from dslc.blocks.memory import Memory
from dslc.blocks.variant import Variant
from runtime.clock import Clock
from runtime.errors import UsageError
from runtime.memory.records.remotes import REMOTES
from runtime.memory.records.remotes.remote import Remote, RemoteOff
from runtime.memory.store_types import check_options
from runtime.secrets.secret import Secret


def check(memory: Memory) -> None:
    """Raise UsageError for options, as written in the program, that the remote does not take."""
    remote = memory.store.options.get("remote")
    if not isinstance(remote, Variant):
        return
    row = REMOTES.get(remote.name)
    if row is None:
        raise UsageError(f"there is no remote {remote.name}", hint=f"there are {', '.join(sorted(REMOTES))}")
    check_options(row.options, remote.options, f"the memory {memory.name} gives the remote {remote.name}")


def open_remote(choice: Variant | None, clock: Clock) -> tuple[Remote | None, str | None]:
    """Return the remote, or why it cannot be used."""
    if choice is None:
        return None, None
    try:
        return REMOTES[choice.name].open(choice.options, clock), None
    except RemoteOff as off:
        return None, f"nothing is sent to {choice.name}: {off}"


def is_same(one: Variant | None, other: Variant | None) -> bool:
    """True if both are the same remote with equal options, secrets included."""
    return _revealed_options(one) == _revealed_options(other)


def _revealed_options(choice: Variant | None) -> object:
    if choice is None:
        return None
    return choice.name, {
        key: value.reveal() if isinstance(value, Secret) else value for key, value in choice.options.items()
    }
