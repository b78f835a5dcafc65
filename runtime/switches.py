"""TABLE of switches: settings of the process that stop a part of what agents do. What they stop waits, and goes on
after a start with the switch on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from runtime.errors import SymbiontError
from runtime.extension_table import table_of

AGENTS: Final = "agents"
EMBEDDING: Final = "agent_embedding"
TOOLS: Final = "agent_tools"
COMPACTION: Final = "agent_compaction"


@dataclass(frozen=True, slots=True)
class Switch:
    """One row. `name`: of the setting too. `subject`: what is switched off, as the begin of a sentence with "are" or
    "is". `stops` and `waits`: what happens while it is off, for people."""

    name: str
    subject: str
    stops: str
    waits: str

    @property
    def setting(self) -> str:
        """The environment variable that turns it, to `on` or `off`."""
        return f"SYMBIONT_{self.name.upper()}"

    @property
    def reason(self) -> str:
        """Reason why something does not happen while it is off, in one line."""
        return f"{self.subject} switched off by {self.setting}"


SWITCHES: Final = table_of(
    "switch",
    [
        Switch(
            AGENTS,
            "agents are",
            stops="every run, recorders included, and all background work for agents; routes and tools of agents are "
            "refused",
            waits="deliveries, which are accepted and stored, and messages",
        ),
        Switch(
            EMBEDDING,
            "the embedding of what agents remember is",
            stops="vectors for messages and for the memories of agents; searches go by words and by the vectors that "
            "exist",
            waits="entries without a vector",
        ),
        Switch(
            TOOLS,
            "tools of agents are",
            stops="tools: agents are offered none, and the output of a call says so",
            waits="nothing: agents answer without tools",
        ),
        Switch(
            COMPACTION,
            "summaries of threads are",
            stops="summaries: the context of an agent leaves the oldest messages out",
            waits="messages that no summary has yet",
        ),
    ],
)
"""Every switch by its name."""


class SwitchedOff(SymbiontError):  # noqa: N818 - it says what is the case
    """A switch is off, or an agent of a user, so this does not happen now."""

    @classmethod
    def by(cls, switch: Switch) -> Self:
        """Return the error for a switch that is off."""
        return cls(switch.reason, hint=f"start the daemon with {switch.setting}=on")


@dataclass(frozen=True, slots=True)
class Switches:
    """The switches of one process. `off`: names of those that are off."""

    off: frozenset[str] = frozenset()

    @classmethod
    def of(cls, settings: Mapping[str, object]) -> Switches:
        """Return the switches as settings by name have them; one that they do not have is on."""
        return cls(frozenset(name for name in SWITCHES if settings.get(name) == "off"))

    def on(self, name: str) -> bool:
        """Return True if the switch `name` is on. Raises KeyError for an unknown one."""
        return SWITCHES[name].name not in self.off

    def reason(self, *names: str) -> str | None:
        """Return the reason why something stops by these switches, in one line; None if all of them are on."""
        return next((SWITCHES[name].reason for name in names if not self.on(name)), None)

    @property
    def reasons(self) -> list[str]:
        """Reasons why something does not happen, a line for each switch that is off."""
        return [row.reason for row in SWITCHES.values() if row.name in self.off]

    def need(self, name: str | None) -> None:
        """Raise SwitchedOff if the switch `name` is off; None: no switch is needed."""
        if name is not None and not self.on(name):
            raise SwitchedOff.by(SWITCHES[name])


ALL_ON: Final = Switches()
"""Of processes without settings."""
