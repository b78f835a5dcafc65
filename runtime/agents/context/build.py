"""`build` makes the request of one step from typed fields, within a strict budget of tokens. It is a pure function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, groupby
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from runtime.agents.context.fields import MESSAGE_TOKENS, Budget, Count, Entry, Fields
from runtime.agents.context.render import (
    CutBlock,
    block_text,
    cut,
    cut_block,
    fenced,
    join_paragraphs,
    schema_text,
    tail_text,
    tool_text,
    tools_text,
)
from runtime.errors import GiveUp
from runtime.models.request import Message, ToolCall, ToolSchema
from runtime.token_counter import TokenCounter, Tokenizer

_TOOLS_SHARE: Final = 4
"""Tools that do not fit into this part of the window are left out first."""
_MESSAGES_SHARE: Final = 4
"""The messages of the thread have at least this part of the request."""
URGENT: Final = "urgent_tasks"
"""The fence of the urgent tasks."""
_MEASURED_TIMES: Final = 3
"""Maximum number of times that the texts of one context are measured."""
ENTRY_SHARE: Final = 4
"""A single message, and the summary, have at most this part of the request."""
_BLOCKS_SHARE: Final = 8
"""Preferences and urgent tasks give way before the blocks of core memory have less than this part of the request."""
_CHARACTERS: Final = 3
"""Characters of a token in a block that is empty."""


class NoRoom(GiveUp):
    """The instruction alone leaves no room for a conversation."""


class PartCost(NamedTuple):
    """A part of a context, as shown to a person. `note`: why it is missing or shorter; empty if it is whole."""

    name: str
    tokens: int
    note: str = ""


class BuiltContext(NamedTuple):
    """A request within its budget. `notes`: what gave way to the budget, one line each.

    `tools`: for the model's own interface. `offered`: the tools that the model may call, in either form. `schema`: of
    its reply; None for a reply without one.

    `tokens`: of the request, as counted. `wanted`: the tokens that it would have with all messages. `sizes`: the tokens
    of each entry of the fields, as it is shown if it has room. `first`: position of the oldest message of the thread in
    the request; None without. `left_out`: number of newer messages than the summary that are not in it.
    `says_urgent`: it has the urgent tasks. `block_rooms`: for how many characters of each block there is room, by their
    labels. `cut_blocks`: what a person is told about blocks that are larger.
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolSchema, ...]
    offered: tuple[ToolSchema, ...]
    schema: Mapping[str, Any] | None
    tokens: int
    wanted: int
    sizes: tuple[int, ...]
    parts: tuple[PartCost, ...]
    notes: tuple[str, ...]
    first: int | None
    left_out: int
    says_urgent: bool = False
    block_rooms: Mapping[str, int] = MappingProxyType({})
    cut_blocks: tuple[str, ...] = ()


class _RenderedEntry(NamedTuple):
    """An entry as it is shown, and its tokens."""

    entry: Entry
    tokens: int


class _Section(NamedTuple):
    name: str
    text: str
    tokens: int


def build(fields: Fields, budget: Budget, count: Count) -> BuiltContext:
    """Return the request of one step. Raises NoRoom.

    What is fixed gives way in this order if it is too large: tools, the middle of long blocks, preferences, urgent
    tasks, more of the blocks, all tools; never the instruction. Messages that do not fit are left out from the oldest,
    in steps of a quarter of the request, so that two successive contexts begin alike.
    """
    fixed = _StableParts(fields, budget, count)
    tail = tail_text(fields)
    tail_tokens = count(tail)
    summary = fenced("summary", fields.summary) if fields.summary else ""
    most, step = budget.request // ENTRY_SHARE, budget.request // _MESSAGES_SHARE
    shown_summary = cut(summary, most, count)
    summary_tokens, known_tokens = count(shown_summary), count(fields.known)
    before = join_paragraphs((shown_summary, fields.known))
    around = tail_tokens + summary_tokens + known_tokens + 3 * MESSAGE_TOKENS
    fixed.fit(budget.request - around - step)
    room = budget.request - around - fixed.tokens
    shown = [_cut_entry(entry, most, count) for entry in fields.entries]
    groups = [list(group) for _, group in groupby(shown, _group)]
    wanted = sum(each.tokens for each in shown)
    kept, dropped = _newest_entries(groups, room, step, count)
    asked = fields.input
    if asked is not None and not _has_position(kept, asked.position):
        # At most half of the room, so that what was done last stays beside it.
        first = _cut_entry(asked, min(most, room // 2), count)
        kept, dropped = _newest_entries(groups, room - first.tokens, step, count)
        kept = [first, *kept]
        if _has_position(shown, asked.position):
            dropped -= 1
        else:
            wanted += first.tokens
    spent = sum(each.tokens for each in kept)
    notes = [*fixed.notes, *fixed.cut_notes]
    if shown_summary != summary:
        notes.append("the summary is shortened")
    if dropped:
        notes.append(f"{dropped} older messages are left out until they are summarized")
    system = join_paragraphs(section.text for section in fixed.sections)
    after = join_paragraphs((fixed.urgent, tail))
    messages = _merge_user_messages(
        [
            Message("system", system),
            *([Message("user", before)] if before else []),
            *(_message(each.entry, native=fields.native) for each in kept),
            *([Message("user", after)] if after else []),
        ]
    )
    parts = (
        *(PartCost(section.name, section.tokens, fixed.size_note(section.name)) for section in fixed.sections),
        *([PartCost("tools", fixed.offered)] if fixed.offered else []),
        *([PartCost("reply schema", fixed.schema_tokens)] if fixed.schema_tokens else []),
        *fixed.missing,
        *([PartCost("summary", summary_tokens)] if shown_summary else []),
        *([PartCost("memory", known_tokens)] if fields.known else []),
        PartCost("messages", spent, f"{dropped} left out" if dropped else ""),
        *([PartCost("urgent tasks", fixed.urgent_tokens)] if fixed.urgent else []),
        PartCost("state", tail_tokens),
    )
    return BuiltContext(
        messages=messages,
        tools=fixed.tools if fields.native else (),
        offered=fixed.tools,
        schema=fixed.schema,
        tokens=fixed.tokens + around + spent,
        wanted=fixed.tokens + around + wanted,
        sizes=tuple(each.tokens for each in shown),
        parts=parts,
        notes=tuple(notes),
        first=kept[0].entry.position if kept else None,
        left_out=dropped,
        says_urgent=bool(fixed.urgent),
        block_rooms=fixed.rooms(budget.request - around - step),
        cut_blocks=fixed.cut_notes,
    )


async def build_measured(fields: Fields, budget: Budget, counter: TokenCounter, tokenizer: Tokenizer) -> BuiltContext:
    """Return `build`, with the tokens of its texts counted by the model's own tokenizer if it has one. Raises
    NoRoom."""
    # Texts that are cut are new ones, which are measured too.
    for _ in range(_MEASURED_TIMES if counter.has_tokenizer else 0):
        texts: dict[str, None] = {}

        def note(text: str, texts: dict[str, None] = texts) -> int:
            texts[text] = None
            return counter.count(text)

        built: BuiltContext | NoRoom
        try:
            built = build(fields, budget, note)
        except NoRoom as error:
            # The estimate may be too high.
            built = error
        if not await counter.measure(tokenizer, texts):
            if isinstance(built, NoRoom):
                raise built
            return built
    return build(fields, budget, counter.count)


class _StableParts:
    """The parts of a context that rarely change, and how they give way."""

    def __init__(self, fields: Fields, budget: Budget, count: Count) -> None:
        self._fields = fields
        self._budget = budget
        self._count = count
        self._blocks = [each for each in (fields.persona, *fields.blocks, fields.human) if each is not None]
        self._cuts = [CutBlock(block_text(each), len(each.value)) for each in self._blocks]
        self._preferences = fields.preferences
        self.urgent = fenced(URGENT, fields.urgent_tasks) if fields.urgent_tasks else ""
        """The urgent tasks, which are at the end of the context."""
        self.urgent_tokens = count(self.urgent)
        self.tools = fields.tools
        self.notes: list[str] = []
        self.missing: list[PartCost] = []
        self.sections: tuple[_Section, ...] = ()
        self.offered = 0
        """Tokens of the tools that are offered by the model's own interface."""
        self.schema: Mapping[str, Any] | None = None
        self.schema_tokens = 0
        """Tokens of the schema in the request."""
        self.tokens = 0
        self._measure()

    def fit(self, room: int) -> None:
        """Leave out parts until the rest has at most `room` tokens. Raises NoRoom."""
        for give_way in self._reductions(room):
            if self.tokens <= room:
                return
            give_way()
            self._measure()
        if self.tokens > room:
            raise NoRoom(
                f"the instruction has about {self.tokens} tokens, and a request may have {self._budget.request}",
                hint="shorten the instruction, or allow more: `max_tokens` of the agent, and the window of its model",
            )

    def _reductions(self, room: int) -> Iterator[Callable[[], None]]:
        cut_blocks = partial(self._cut_blocks, room, self._budget.request // _BLOCKS_SHARE)
        yield self._leave_out_tools
        yield cut_blocks
        if self._fields.preferences:
            yield self._leave_out_preferences
            yield cut_blocks
        if self.urgent:
            yield self._leave_out_urgent
            yield cut_blocks
        yield partial(self._cut_blocks, room, 0)
        yield self._leave_out_all_tools
        yield partial(self._cut_blocks, room, 0)
        yield self._leave_out_blocks

    def size_note(self, section: str) -> str:
        """Return the size of a block that is cut, by the name of its section; empty if it is whole."""
        for block, (_, shown) in zip(self._blocks, self._cuts, strict=True):
            if section == f"block {block.label}" and shown < len(block.value):
                return f"{shown:,} of {len(block.value):,} characters"
        return ""

    @property
    def cut_notes(self) -> tuple[str, ...]:
        """One line for each block that is not whole."""
        return tuple(
            f"the block {block.label} is shortened: {shown.shown:,} of {len(block.value):,} characters have room"
            for block, shown in zip(self._blocks, self._cuts, strict=True)
            if shown.shown < len(block.value)
        )

    def rooms(self, room: int) -> dict[str, int]:
        """Return for how many characters of each block there is room, if the fixed parts may have `room` tokens."""
        free, rooms = max(room - self.tokens, 0), {}
        for block, (text, shown) in zip(self._blocks, self._cuts, strict=True):
            tokens = max(self._count(text), 1)
            rooms[block.label] = shown + free * max(len(text) // tokens, _CHARACTERS)
        return rooms

    def _leave_out_blocks(self) -> None:
        self._cuts = [CutBlock("", 0) for _ in self._blocks]

    def _cut_blocks(self, room: int, least: int) -> None:
        """Cut the longest blocks, so that all fixed parts have `room` tokens, but the blocks together not less than
        `least`."""
        shown = sum(self._count(text) for text, _ in self._cuts)
        whole = [block_text(block) for block in self._blocks]
        shares = _shares([self._count(text) for text in whole], max(room - (self.tokens - shown), least))
        self._cuts = [
            CutBlock(text, len(block.value)) if self._count(text) <= share else cut_block(block, share, self._count)
            for block, text, share in zip(self._blocks, whole, shares, strict=True)
        ]

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

    def _leave_out_preferences(self) -> None:
        self._preferences = ""
        self.notes.append("the preferences are left out: the window is too small")
        self.missing.append(PartCost("preferences", 0, "left out"))

    def _leave_out_urgent(self) -> None:
        self.urgent, self.urgent_tokens = "", 0
        self.notes.append("the urgent tasks are left out: the window is too small")
        self.missing.append(PartCost("urgent tasks", 0, "left out"))

    def _measure(self) -> None:
        fields = self._fields
        tools = [] if fields.native or not self.tools else [("tools", fenced("tools", tools_text(self.tools)))]
        texts = [
            ("instruction", join_paragraphs((fields.instruction, fields.reply_format))),
            *tools,
            *((f"block {block.label}", each.text) for block, each in zip(self._blocks, self._cuts, strict=True)),
            *([("preferences", fenced("preferences", self._preferences))] if self._preferences else []),
        ]
        self.sections = tuple(_Section(name, text, self._count(text)) for name, text in texts if text)
        self.offered = sum(self._count(tool_text(tool)) for tool in self.tools) if fields.native else 0
        self.schema = None if fields.schema is None else fields.schema(self.tools)
        read = self.schema if fields.schema_in_prompt else None
        self.schema_tokens = 0 if read is None else self._count(schema_text(read))
        # The paragraphs between the sections.
        paragraphs = sum(section.tokens + 1 for section in self.sections)
        urgent = self.urgent_tokens + 1 if self.urgent else 0
        self.tokens = paragraphs + self.offered + self.schema_tokens + urgent


def _shares(wanted: Sequence[int], room: int) -> list[int]:
    """Return equal shares of `room` tokens; what one does not need goes to the others."""
    shares, left = [0] * len(wanted), max(room, 0)
    for waiting, index in enumerate(sorted(range(len(wanted)), key=wanted.__getitem__)):
        shares[index] = min(wanted[index], left // (len(wanted) - waiting))
        left -= shares[index]
    return shares


def _group(shown: _RenderedEntry) -> int:
    return shown.entry.group


def _has_position(shown: Sequence[_RenderedEntry], position: int) -> bool:
    # It is one of the newest, usually.
    return any(each.entry.position == position for each in reversed(shown))


def _tokens_of(entry: Entry, count: Count) -> int:
    """Return the tokens of an entry in a request."""
    tokens = count(entry.text) + MESSAGE_TOKENS
    for call in entry.calls:
        tokens += count(call.name) + count(call.arguments) + MESSAGE_TOKENS
    return tokens


def _cut_entry(entry: Entry, tokens: int, count: Count) -> _RenderedEntry:
    """Return the entry without a part of its middle, if it has more than `tokens` tokens."""
    size = _tokens_of(entry, count)
    if size <= tokens:
        return _RenderedEntry(entry, size)
    calls = tuple(_cut_call(call, (tokens - MESSAGE_TOKENS) // len(entry.calls), count) for call in entry.calls)
    besides = _tokens_of(entry._replace(text="", calls=calls), count)
    text = cut(entry.text, max(tokens - besides, 0), count)
    return _RenderedEntry(entry._replace(text=text, calls=calls), besides + count(text))


def _cut_call(call: ToolCall, tokens: int, count: Count) -> ToolCall:
    """Return a call without its arguments if they are too large: JSON that is cut would be no JSON."""
    if count(call.name) + count(call.arguments) + MESSAGE_TOKENS <= tokens:
        return call
    return ToolCall(call.id, call.name, "{}", call.extra)


def _newest_entries(
    groups: Sequence[Sequence[_RenderedEntry]], room: int, step: int, count: Count
) -> tuple[Sequence[_RenderedEntry], int]:
    """Return the entries of the newest groups that fit into `room` tokens, and how many entries are left out.

    Groups are left out from the oldest, `step` tokens at a time. The newest one always stays, shortened if necessary.
    """
    sizes = [sum(each.tokens for each in group) for group in groups]
    left, start = sum(sizes), 0
    dropped = wanted = 0
    while left > room and start < len(groups) - 1:
        wanted += max(step, 1)
        while dropped < wanted and start < len(groups) - 1:
            dropped += sizes[start]
            left -= sizes[start]
            start += 1
    kept = groups[start:]
    if left > room and kept:
        kept = [_cut_group(kept[0], room, count)]
    return list(chain.from_iterable(kept)), sum(len(group) for group in groups[:start])


def _cut_group(group: Sequence[_RenderedEntry], room: int, count: Count) -> Sequence[_RenderedEntry]:
    """Return the entries of a group with equal shares of `room`, beyond what each has without its text; what one does
    not need goes to the others. The first outputs, with their calls, are left out if `room` is too small for all."""
    entries = [each.entry for each in group]
    least = [_cut_entry(entry, 0, count).tokens for entry in entries]
    while sum(least) > room and len(entries) > 2:
        calls = entries[0].calls
        rest = [entry for entry in entries[1:] if entry.call_id != calls[0].id] if calls else entries[2:]
        entries = [entries[0]._replace(calls=calls[1:]), *rest]
        least = [_cut_entry(entry, 0, count).tokens for entry in entries]
    wanted = [_tokens_of(entry, count) - size for entry, size in zip(entries, least, strict=True)]
    shares = [size + share for size, share in zip(least, _shares(wanted, room - sum(least)), strict=True)]
    return [_cut_entry(entry, share, count) for entry, share in zip(entries, shares, strict=True)]


def _message(entry: Entry, *, native: bool) -> Message:
    """Return an entry as a message. A model without its own interface for tools reads outputs as a user's messages."""
    if entry.role == "tool" and not native:
        return Message("user", entry.text)
    if not native:
        return Message(entry.role, entry.text)
    return Message(entry.role, entry.text, entry.calls, entry.call_id, entry.reasoning)


def _merge_user_messages(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Join messages of the user that follow each other: the chat templates of some models refuse them."""
    found: list[Message] = []
    for message in messages:
        if found and message.role == found[-1].role == "user":
            found[-1] = Message("user", join_paragraphs((found[-1].text, message.text)))
        else:
            found.append(message)
    return tuple(found)
