"""Blocks of core memory, and which of them an agent has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple

from msgspec import Struct

CHAR_LIMIT: Final = 20_000
"""Default maximum characters of a block."""

PERSONA: Final = "persona"
"""Label of the block that says who the agent is."""

HUMAN: Final = "human"
"""Label of the block about the user, or in a keyed thread about its subject."""

ChangedBy = Literal["person", "agent", "tool", "payload", "program"]
"""Who changed a block. `tool`: a client that called a tool, without an agent of the program. `program`: its first
value."""


class DeclaredBlock(Struct, frozen=True, kw_only=True):
    """A block that a program declares for an agent. `value`: its first value. `shared`: it belongs to all agents of a
    user. `deliveries`: runs that a delivery woke may change it; None: as `may_change` has it."""

    label: str
    description: str = ""
    value: str = ""
    char_limit: int = CHAR_LIMIT
    read_only: bool = False
    shared: bool = False
    deliveries: bool | None = None


_PERSONA: Final = DeclaredBlock(
    label=PERSONA, description="Who you are, and how you behave.", value="I am a helpful AI assistant."
)
_HUMAN: Final = DeclaredBlock(label=HUMAN, description="What you know about the person you talk to.")


class BlockScope(NamedTuple):
    """Selects the blocks of a user that one agent has: its own, those of the subject of its keyed thread, and those of
    all the user's agents."""

    user_id: str
    agent: str
    subject: str | None = None


class Block(Struct, frozen=True, kw_only=True):
    """A block. `agent` None: it belongs to all agents of the user. `subject`: of a keyed thread; None: of the agent.

    `id`: empty if the block is not stored yet. Times are Unix milliseconds.
    """

    id: str
    user_id: str
    agent: str | None
    subject: str | None
    label: str
    description: str
    value: str
    char_limit: int
    read_only: bool
    version: int
    created_at: int
    updated_at: int


class BlockVersion(NamedTuple):
    """A version of a block. `run_id`: the run that made it. `created_at`: Unix milliseconds."""

    version: int
    value: str
    changed_by: ChangedBy
    run_id: str | None
    created_at: int


class Origin(NamedTuple):
    """The source of a change.

    `run_id`, `attempt`: the run, if it is a change of one, and its attempt, which must still be the current one. `key`:
    identifies the change within its run, the same on every attempt: a change with the same key happens once. `webhook`:
    whose delivery woke the run; lines that it writes say so.
    """

    changed_by: ChangedBy
    run_id: str | None = None
    attempt: int | None = None
    key: str | None = None
    webhook: str | None = None


def first_blocks(scope: BlockScope, declared: Iterable[DeclaredBlock], now: int) -> list[Block]:
    """Return the blocks that an agent has at its first use, in the order of a context: `persona`, those that the
    program declares, `human`.

    `human` belongs to all agents of the user, or to the subject if the scope has one.
    """
    by_label = {PERSONA: _PERSONA} | {each.label: each for each in declared}
    by_label[HUMAN] = by_label.pop(HUMAN, _HUMAN)
    return [_first_block(scope, each, now) for each in by_label.values()]


def _first_block(scope: BlockScope, declared: DeclaredBlock, now: int) -> Block:
    of_subject = declared.label == HUMAN and scope.subject is not None
    of_all = not of_subject and (declared.shared or declared.label == HUMAN)
    return Block(
        id="",
        user_id=scope.user_id,
        agent=None if of_all else scope.agent,
        subject=scope.subject if of_subject else None,
        label=declared.label,
        description=declared.description,
        value=declared.value,
        char_limit=declared.char_limit,
        read_only=declared.read_only,
        version=1,
        created_at=now,
        updated_at=now,
    )


def may_change(scope: BlockScope, label: str, declared: Iterable[DeclaredBlock]) -> bool:
    """Return True if runs that a delivery woke may change a block of the scope.

    Anyone may have written the payload. So `persona` is never changed, and `human` only if it is that of the subject,
    or if the program says so: all other agents of the user trust it.
    """
    chosen = next((each.deliveries for each in declared if each.label == label), None)
    if label == PERSONA:
        return False
    if label == HUMAN and scope.subject is not None:
        return chosen is not False
    return label != HUMAN if chosen is None else chosen


def visible_blocks(stored: Iterable[Block], first: Sequence[Block]) -> list[Block]:
    """Return one block for each label, in the order of a context. Of several, the subject's precedes the agent's, and
    that precedes one of all agents. A block of `first` counts if none with its owner and label is stored."""
    there = {_identity(each): each for each in first} | {_identity(each): each for each in stored}
    found: dict[str, Block] = {}
    for each in sorted(there.values(), key=_closeness):
        found[each.label] = each
    order = {each.label: place for place, each in enumerate(first)}
    last = order.get(HUMAN, len(order))

    def place(block: Block) -> tuple[int, str]:
        # Blocks that the program does not declare, or no longer, follow the declared ones; `human` is the last.
        if block.label == HUMAN:
            return len(order) + 1, ""
        return order.get(block.label, last), block.label

    return sorted(found.values(), key=place)


def _identity(block: Block) -> tuple[str | None, str | None, str]:
    return block.agent, block.subject, block.label


def _closeness(block: Block) -> int:
    return 0 if block.agent is None else 1 if block.subject is None else 2
