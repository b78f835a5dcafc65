"""Texts that are hard to store in a Markdown file, and items with them."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import strategies as st

from runtime.memory.item import Item, MemoryType, Provenance

WHEN = datetime(2026, 2, 14, 10, 30, 7, 250_000, tzinfo=UTC)

_FRAGMENTS = [
    "## ", "# ", "### Facts", "## Facts", "- ", "* ", "+ ", "1. ", "> ", "\n", "\n\n", "\r", "\r\n", "\t", "  ",
    " ", "a", "b", "é", "日本", "```", "~~~", "```python", "---", "***", "- - -", "===", "<!--", "-->",
    "<!-- symbi {", "} -->", '"text": "x"', '<!-- symbi {"tags":["x"]} -->', "## 10:30 — x", "[fact] ", "\\\\",
    "\\## ", "&lt;!--", "\x00", "\x0b", "\x0c", "\x1b[0m", "\x7f", "\x85", "\u2028", "\u2029", "\ufeff", "\ufffd",
    "\u200b", "Updated: 2026", "**bold**", "[ ] task",
]  # fmt: skip

hard = st.lists(st.sampled_from(_FRAGMENTS), max_size=12).map("".join)
"""Pieces of Markdown, of our annotations and of characters that confuse editors, in any order."""

texts = st.one_of(hard, st.text(st.characters(exclude_categories=["Cs"]), max_size=60))

files = st.one_of(
    st.lists(hard, max_size=8).map(lambda pieces: "\n".join(pieces).encode()),
    st.lists(hard, max_size=8).map(lambda pieces: "\r\n".join(pieces).encode()),
    st.binary(max_size=120),
)
"""Any content of a person's file, text or not."""

_LINES = [
    "- a", "- b <!-- check this", "- c -->", "* d", "- ```", "-", "- e <!-- TODO -->", "  goes on", "  <!-- more",
    "  -->",
    '- f <!-- symbi {"tags":["x"]} -->', '  <!-- symbi {"at":"2026-02-14T10:30:00Z"} -->', "- g <!-- symbi {} -->",
    '- h <!-- symbi {"later":1} -->', '<!-- symbi {"tags":["y"]} -->', "<!-- symbi {} -->", "<!-- TODO: tidy up", "-->",
    "<!-- x -->", "```", "```python", "~~~", "", "lazily on", "text -->", "1. step", "- [fact] i", "- - -", "\\## j",
]  # fmt: skip


def lined(headings: list[str]) -> st.SearchStrategy[bytes]:
    """A file of lines that begin, end, hide and continue items, also below these headings."""
    lines = st.lists(st.sampled_from([*_LINES, *headings, *headings]), max_size=14)
    return st.tuples(lines, st.sampled_from(["\n", "\r\n"]), st.booleans()).map(
        lambda given: (given[1].join(given[0]) + (given[1] if given[2] else "")).encode()
    )


documents = lined(["## Facts", "## Procedures", "## Mine", "# Agent Memory: a", "Updated: 2026-02-14T10:30:00Z"])
logs = lined(["## 10:30 — a", "## 10:31", "## Notes", "## 10:32: no entry"])

times = st.datetimes(timezones=st.just(UTC))
tags = st.frozensets(texts, max_size=3).map(lambda found: tuple(sorted(found)))


def item(
    text: str = "Deployment Review\n- Deployed v1.3.2", memory_type: MemoryType = "episodic", **fields: object
) -> Item:
    """Return an item of the agent `reviewer` at WHEN, with these fields."""
    values = {"agent_id": "reviewer", "memory_type": memory_type, "timestamp": WHEN, "text": text} | fields
    return Item.model_validate(values)


def fact(text: str = "User prefers dark mode", **fields: object) -> Item:
    """Return a semantic item."""
    return item(text, "semantic", **fields)


def provenances() -> st.SearchStrategy[Provenance]:
    """Any provenance of an item."""
    return st.builds(
        Provenance,
        author=st.none() | texts,
        session_id=st.none() | texts,
        task=st.none() | texts,
        confidence=st.none() | st.floats(0, 1),
        risk_tier=st.sampled_from([None, "GREEN", "YELLOW", "RED"]),
        git_commit=st.none() | texts,
        sources=st.lists(texts, max_size=2).map(tuple),
        run_id=st.none() | texts,
        said_by=st.sampled_from([None, "person", "agent", "tool", "payload"]),
    )


@st.composite
def items(draw: st.DrawFn) -> Item:
    """Any item of one agent."""
    return item(
        draw(texts),
        draw(st.sampled_from(["episodic", "semantic", "procedural"])),
        timestamp=draw(times),
        tags=draw(tags | st.just(("pattern",))),
        source_uri=draw(st.none() | texts),
        project_id=draw(st.none() | texts),
        user_id=draw(st.just("owner") | texts),
        source_memory_ids=draw(st.lists(texts, max_size=2)),
        provenance=draw(st.just(Provenance()) | provenances()),
        subject=draw(st.none() | texts),
        replaces=draw(st.none() | texts),
        retracts=draw(st.none() | texts),
    )
