"""`build` makes the request of one step from typed fields, within a strict budget of tokens. It is a pure function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Final, NamedTuple

from runtime.agents.context.fields import MESSAGE_TOKENS, Block, Budget, Count, Entry, Fields
from runtime.agents.context.render import block_text, cut, fenced, joined, tail_text, tool_text, tools_text
from runtime.errors import GiveUp
from runtime.models.request import Message, ToolCall, ToolSchema
from runtime.tokens import TokenCounter, Tokenizer

_TOOLS_SHARE: Final = 4
"""Tools that do not fit into this part of the window are left out first."""
_MESSAGES_SHARE: Final = 4
"""The messages of the thread have at least this part of the request."""
_MEASURED_TIMES: Final = 3
"""Maximum number of times that the texts of one context are measured."""
_ENTRY_SHARE: Final = 4
"""A single message, and the summary, have at most this part of the request."""


class NoRoom(GiveUp):
    """The instruction alone leaves no room for a conversation."""


class PartCost(NamedTuple):
    """A part of a context, as shown to a person. `note`: why it is missing or shorter; empty if it is whole."""

    name: str
    tokens: int
    note: str = ""


class BuiltContext(NamedTuple):
    """A request within its budget. `notes`: what gave way to the budget, one line each.

    `tools`: for the model's own interface. `offered`: the tools that the model may call, in either form.

    `tokens`: of the request, as counted. `wanted`: the tokens that it would have with all messages. `first`: position
    of the oldest message of the thread in it; None without. `left_out`: number of newer messages than the summary that
    are not in it.
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolSchema, ...]
    offered: tuple[ToolSchema, ...]
    tokens: int
    wanted: int
    parts: tuple[PartCost, ...]
    notes: tuple[str, ...]
    first: int | None
    left_out: int


class _Section(NamedTuple):
    name: str
    text: str
    tokens: int


def build(fields: Fields, budget: Budget, count: Count) -> BuiltContext:
    """Return the request of one step. Raises NoRoom.

    What is fixed gives way in this order if it is too large: tools, declared blocks from their end, `human`, `persona`;
    never the instruction. Messages that do not fit are left out from the oldest, in steps of a quarter of the request,
    so that two successive contexts begin alike.
    """
    fixed = _Fixed(fields, budget, count)
    tail = tail_text(fields)
    summary = fenced("summary", fields.summary) if fields.summary else ""
    most = budget.request // _ENTRY_SHARE
    shown_summary = cut(summary, most, count)
    outside = count(tail) + 3 * MESSAGE_TOKENS
    around = outside + (count(shown_summary) if shown_summary else 0)
    fixed.fit(budget.request - around - budget.request // _MESSAGES_SHARE)
    room = budget.request - around - fixed.tokens
    groups = [[_bounded(entry, most, count) for entry in group] for _, group in groupby(fields.entries, _group)]
    everything = sum(entry_tokens(entry, count) for group in groups for entry in group)
    kept, dropped = _newest(groups, room, budget.request // _MESSAGES_SHARE, count)
    entries = [entry for group in kept for entry in group]
    if fields.input is not None and fields.input.position not in {entry.position for entry in entries}:
        # At most half of the room, so that what was done last stays beside it.
        asked = _bounded(fields.input, min(most, room // 2), count)
        kept, dropped = _newest(groups, room - entry_tokens(asked, count), budget.request // _MESSAGES_SHARE, count)
        entries = [asked, *(entry for group in kept for entry in group)]
        dropped -= any(entry.position == asked.position for entry in fields.entries)
    spent = sum(entry_tokens(entry, count) for entry in entries)
    notes = list(fixed.notes)
    if shown_summary != summary:
        notes.append("the summary is shortened")
    if dropped:
        notes.append(f"{dropped} older messages are left out until they are summarized")
    system = joined(section.text for section in fixed.sections)
    messages = _merged(
        [
            Message("system", system),
            *([Message("user", shown_summary)] if shown_summary else []),
            *(_message(entry, native=fields.native) for entry in entries),
            Message("user", tail),
        ]
    )
    parts = (
        *(PartCost(section.name, section.tokens) for section in fixed.sections),
        *([PartCost("tools", fixed.offered)] if fixed.offered else []),
        *fixed.missing,
        *([PartCost("summary", count(shown_summary))] if shown_summary else []),
        PartCost("messages", spent, f"{dropped} left out" if dropped else ""),
        PartCost("state", count(tail)),
    )
    return BuiltContext(
        messages=messages,
        tools=fixed.tools if fields.native else (),
        offered=fixed.tools,
        tokens=fixed.tokens + around + spent,
        wanted=fixed.tokens + around + everything,
        parts=parts,
        notes=tuple(notes),
        first=entries[0].position if entries else None,
        left_out=dropped,
    )


async def build_measured(fields: Fields, budget: Budget, counter: TokenCounter, tokenizer: Tokenizer) -> BuiltContext:
    """Return `build`, with the tokens of its texts counted by the model's own tokenizer if it has one. Raises
    NoRoom."""
    measured: dict[str, None] = {}
    # Texts that are cut are new ones, which are measured too.
    for _ in range(_MEASURED_TIMES if counter.has_tokenizer else 0):
        texts: dict[str, None] = {}

        def note(text: str, texts: dict[str, None] = texts) -> int:
            texts[text] = None
            return counter.count(text)

        build(fields, budget, note)
        if texts.keys() <= measured.keys():
            break
        await counter.measure(tokenizer, texts)
        measured |= texts
    return build(fields, budget, counter.count)


class _Fixed:
    """The parts of a context that rarely change, and how they give way."""

    def __init__(self, fields: Fields, budget: Budget, count: Count) -> None:
        self._fields = fields
        self._budget = budget
        self._count = count
        self._blocks = list(fields.blocks)
        self._human = fields.human
        self._persona = fields.persona
        self.tools = fields.tools
        self.notes: list[str] = []
        self.missing: list[PartCost] = []
        self.sections: tuple[_Section, ...] = ()
        self.offered = 0
        """Tokens of the tools that are offered by the model's own interface."""
        self.tokens = 0
        self._measure()

    def fit(self, room: int) -> None:
        """Leave out parts until the rest has at most `room` tokens. Raises NoRoom."""
        for give_way in self._ways():
            if self.tokens <= room:
                return
            give_way()
            self._measure()
        if self.tokens > room:
            raise NoRoom(
                f"the instruction has about {self.tokens} tokens, and a request may have {self._budget.request}",
                hint="shorten the instruction, or use a model with a larger window",
            )

    def _ways(self) -> Iterator[Callable[[], None]]:
        yield self._leave_out_tools
        for block in (*reversed(self._fields.blocks), self._fields.human, self._fields.persona):
            if block is not None:
                yield partial(self._leave_out, block)
        yield self._leave_out_all_tools

    def _leave_out_tools(self) -> None:
        """Keep the tools that fit into a quarter of the window, and one by which the others are found."""
        most = self._budget.window // _TOOLS_SHARE
        find = self._fields.find_tool
        spent = found = self._count(tool_text(find)) if find else 0
        kept: list[ToolSchema] = []
        never = []
        full = False
        for tool in self._fields.tools:
            tokens = self._count(tool_text(tool))
            if tokens > most - found:
                never.append(tool.name)
            elif not full and spent + tokens <= most:
                kept.append(tool)
                spent += tokens
            else:
                full = True
        left = len(self._fields.tools) - len(kept)
        if left:
            self.tools = (*kept, *([find] if find else []))
            self.notes.append(f"{left} of {len(self._fields.tools)} tools are left out: the window is too small")
            self.missing.append(PartCost("tools", 0, f"{left} left out"))
        self.notes.extend(
            f"the tool {name} alone is larger than a quarter of the window: it is never offered" for name in never
        )

    def _leave_out_all_tools(self) -> None:
        if self.tools:
            self.tools = ()
            self.notes.append("all tools are left out: the window is too small")
            self.missing.append(PartCost("tools", 0, "left out"))

    def _leave_out(self, block: Block) -> None:
        """Leave out a core memory block."""
        if block is self._fields.human:
            self._human = None
        elif block is self._fields.persona:
            self._persona = None
        else:
            self._blocks.remove(block)
        self.notes.append(f"the block {block.label} is left out: the window is too small")
        self.missing.append(PartCost(f"block {block.label}", 0, "left out"))

    def _measure(self) -> None:
        fields = self._fields
        native = [] if fields.native else [("tools", fenced("tools", tools_text(self.tools)))] * bool(self.tools)
        blocks = [self._persona, *self._blocks, self._human]
        texts = [
            ("instruction", joined((fields.instruction, fields.reply_format))),
            *native,
            *((f"block {block.label}", block_text(block)) for block in blocks if block is not None),
            *([("preferences", fenced("preferences", fields.preferences))] if fields.preferences else []),
        ]
        self.sections = tuple(_Section(name, text, self._count(text)) for name, text in texts if text)
        self.offered = sum(self._count(tool_text(tool)) for tool in self.tools) if fields.native else 0
        # The paragraphs between the sections.
        self.tokens = sum(section.tokens + 1 for section in self.sections) + self.offered


def _group(entry: Entry) -> int:
    return entry.group


def entry_tokens(entry: Entry, count: Count) -> int:
    """Return the tokens of an entry in a request."""
    calls = sum(count(call.name) + count(call.arguments) + MESSAGE_TOKENS for call in entry.calls)
    return count(entry.text) + calls + MESSAGE_TOKENS


def _bounded(entry: Entry, tokens: int, count: Count) -> Entry:
    """Return the entry without a part of its middle, if it has more than `tokens` tokens."""
    if entry_tokens(entry, count) <= tokens:
        return entry
    calls = tuple(_bounded_call(call, (tokens - MESSAGE_TOKENS) // len(entry.calls), count) for call in entry.calls)
    entry = entry._replace(calls=calls)
    rest = tokens - entry_tokens(entry._replace(text=""), count)
    return entry._replace(text=cut(entry.text, max(rest, 0), count))


def _bounded_call(call: ToolCall, tokens: int, count: Count) -> ToolCall:
    """Return a call without its arguments if they are too large: JSON that is cut would be no JSON."""
    if count(call.name) + count(call.arguments) + MESSAGE_TOKENS <= tokens:
        return call
    return ToolCall(call.id, call.name, "{}")


def _newest(
    groups: Sequence[Sequence[Entry]], room: int, step: int, count: Count
) -> tuple[Sequence[Sequence[Entry]], int]:
    """Return the newest groups that fit into `room` tokens, and how many entries are left out.

    Groups are left out from the oldest, `step` tokens at a time. The newest one always stays, shortened if necessary.
    """
    sizes = [sum(entry_tokens(entry, count) for entry in group) for group in groups]
    left, start = sum(sizes), 0
    dropped = wanted = 0
    while left > room and start < len(groups) - 1:
        wanted += max(step, 1)
        while dropped < wanted and start < len(groups) - 1:
            dropped += sizes[start]
            left -= sizes[start]
            start += 1
    kept = list(groups[start:])
    if left > room and kept:
        kept = [_shortened(kept[0], room, count)]
    return kept, sum(len(group) for group in groups[:start])


def _shortened(group: Sequence[Entry], room: int, count: Count) -> Sequence[Entry]:
    """Return the entries of a group with equal shares of `room`, beyond what each has without its text; what one does
    not need goes to the others. The first outputs, with their calls, are left out if `room` is too small for all."""
    least = [entry_tokens(_bounded(entry, 0, count), count) for entry in group]
    while sum(least) > room and len(group) > 2:
        calls = group[0].calls
        rest = [entry for entry in group[1:] if entry.call_id != calls[0].id] if calls else group[2:]
        group = [group[0]._replace(calls=calls[1:]), *rest]
        least = [entry_tokens(_bounded(entry, 0, count), count) for entry in group]
    wanted = [entry_tokens(entry, count) - size for entry, size in zip(group, least, strict=True)]
    shares = list(least)
    left = max(room - sum(least), 0)
    for waiting, index in enumerate(sorted(range(len(group)), key=wanted.__getitem__)):
        share = min(wanted[index], left // (len(group) - waiting))
        shares[index] += share
        left -= share
    return [_bounded(entry, share, count) for entry, share in zip(group, shares, strict=True)]


def _message(entry: Entry, *, native: bool) -> Message:
    """Return an entry as a message. A model without its own interface for tools reads outputs as a user's messages."""
    if entry.role == "tool" and not native:
        return Message("user", entry.text)
    return Message(entry.role, entry.text, entry.calls if native else (), entry.call_id if native else None)


def _merged(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Join messages of the user that follow each other: the chat templates of some models refuse them."""
    found: list[Message] = []
    for message in messages:
        if found and message.role == found[-1].role == "user":
            found[-1] = Message("user", joined((found[-1].text, message.text)))
        else:
            found.append(message)
    return tuple(found)
