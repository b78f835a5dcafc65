"""The texts of a context: its fields as a model reads them. Data is fenced, so that it cannot end its own fence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from runtime.agents.context.fields import Block, Count, Fields, Metadata
from runtime.models.request import ToolSchema
from runtime.tools.model.signature import descriptions

_CLOSING: Final = "<\\/"
_LEFT_OUT: Final = "[…]"
_CUT_BITS: Final = 5
"""Significant bits of the number of characters that stay of a text."""


def fenced(tag: str, text: str, **attributes: object) -> str:
    """Return `<tag name="value">text</tag>`. Closing tags inside the text are written `<\\/…`, so it cannot leave the
    fence."""
    given = "".join(f' {name}="{_attribute(value)}"' for name, value in attributes.items() if value is not None)
    inside = text.replace("</", _CLOSING)
    return f"<{tag}{given}>\n{inside}\n</{tag}>"


@lru_cache(maxsize=64)
def tools_text(tools: tuple[ToolSchema, ...]) -> str:
    """Return the description of tools for a model that calls them in its text."""
    return descriptions(tools)


def tool_text(tool: ToolSchema) -> str:
    """Return the description of one tool as its tokens are counted for the model's own interface: its name, what it
    does, and the JSON Schema of its arguments."""
    return f"- {tool.name}: {tool.description}\n  args: {schema_text(tool.parameters)}"


def schema_text(schema: Mapping[str, Any]) -> str:
    """Return a JSON Schema as text."""
    return msgspec.json.encode(schema).decode()


def block_text(block: Block, shown: str | None = None) -> str:
    """Return a core memory block; with `shown`, this in place of its value. `chars` tells the model how much room is
    left."""
    chars = f"{len(block.value)}/{block.limit}"
    read_only = "true" if block.read_only else None
    about = block.description or None
    value = block.value if shown is None else shown
    return fenced("block", value, label=block.label, description=about, chars=chars, read_only=read_only)


def tail_text(fields: Fields) -> str:
    """Return the state of a turn, as the last message of a context; empty for one that shows no state."""
    if not fields.time:
        return ""
    lines = [metadata_text(fields.metadata), f"Current time: {fields.time}"]
    if fields.tasks:
        lines.insert(1, fields.tasks)
    if fields.first_time:
        lines.append("This is your first conversation with this user.")
    return fenced("state", "\n".join(lines))


def waiting_text(tools: Iterable[str]) -> str:
    """Return one line about calls of these tools that wait for a person; empty without any."""
    names = ", ".join(tools)
    return f"Calls of earlier turns that wait for approval by a person: {names}" if names else ""


def metadata_text(about: Metadata) -> str:
    """Return the sizes of an agent's memories in one line."""
    compacted = f"; conversation last summarized {about.compacted}" if about.compacted else ""
    return (
        f"Memory: {about.archival} archival items, {about.recall} messages in recall, {about.blocks} blocks, "
        f"{about.summaries} summaries{compacted}"
    )


def cut(text: str, tokens: int, count: Count) -> str:
    """Return `text` without a part of its middle, so that it has at most `tokens` tokens, with a note in its place."""
    return _cut_middle(text, tokens, count, "{left:,} characters are left out here; the whole text is stored")[0]


class CutBlock(NamedTuple):
    """A core memory block as a context shows it. `shown`: characters of its value."""

    text: str
    shown: int


def cut_block(block: Block, tokens: int, count: Count) -> CutBlock:
    """Return the text of a block without a part of the middle of its value, so that it has at most `tokens` tokens,
    with a note that tells the model so; a value that has no room at all is left out."""
    note = "you see {kept:,} of {whole:,} characters of this block: shorten it"
    room = max(tokens - count(block_text(block, _LEFT_OUT)), 0)
    while True:
        value, shown = _cut_middle(block.value, room, count, note)
        text = block_text(block, value)
        # Counts of parts may not add up to that of the whole.
        over = count(text) - tokens
        if over <= 0 or room == 0:
            return CutBlock(text, shown)
        room = max(room - over, 0)


def _cut_middle(text: str, tokens: int, count: Count, about: str) -> tuple[str, int]:
    """Return the shortened text, and how many of its characters it has. `about`: what the note says of the `left`,
    `kept` and `whole` numbers of characters."""
    size = count(text)
    if size <= tokens:
        return text, len(text)
    kept = len(text) * tokens // size
    # In coarse steps: a text is cut at the same place when counts have changed a little, so that contexts begin alike.
    step = 1 << max(kept.bit_length() - _CUT_BITS, 0)
    kept -= kept % step
    while kept > 0:
        note = f"\n[… {about.format(left=len(text) - kept, kept=kept, whole=len(text))} …]\n"
        head = (kept + 1) // 2
        shorter = f"{text[:head]}{note}{text[len(text) - (kept - head) :]}"
        if count(shorter) <= tokens:
            return shorter, kept
        kept -= step
    return _LEFT_OUT if count(_LEFT_OUT) <= tokens else "", 0


def join_paragraphs(texts: Iterable[str]) -> str:
    """Return the texts that are not empty as paragraphs."""
    return "\n\n".join(text for text in texts if text)


def _attribute(value: object) -> str:
    """Return a value in one line, without characters that end an attribute."""
    text = " ".join(str(value).split())
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")
