"""Generated replies: what a model means, and the forms in which it may write that."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from hypothesis import strategies as st

from runtime.agents.reply.agent_reply import BLANK, AgentReply

TEXTS: Final = st.text(max_size=30) | st.sampled_from(
    [
        'It\'s "fine".',
        "a\nb",
        "{}",
        '{"name": "done", "args": {}}',
        "</think>",
        "```",
        "\\",
        "”",
        "// no",
        "<tool_call>",
    ]
)
_CALLS: Final = st.one_of(
    st.builds(lambda label, content: ("memory_append", {"label": label, "content": content}), TEXTS, TEXTS),
    st.builds(
        lambda query, limit, tags: ("archival_search", {"query": query, "limit": limit, "tags": tags}),
        TEXTS,
        st.integers(-(2**63), 2**63 - 1),
        st.none() | st.lists(TEXTS, max_size=3),
    ),
    st.builds(
        lambda on, level, kitchen: ("set_lights", {"on": on, "level": level, "rooms": {"kitchen": kitchen}}),
        st.booleans(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.integers(0, 9),
    ),
    st.just(("done", {})),
)


class Meant(NamedTuple):
    """What a model means."""

    messages: list[str]
    calls: list[tuple[str, dict[str, Any]]]

    @property
    def shown(self) -> tuple[str, ...]:
        """The messages without blank ones."""
        return tuple(text for text in self.messages if text.strip(BLANK))

    def value(self) -> dict[str, Any]:
        """Return it in the form that models are asked for."""
        calls = [{"name": name, "args": arguments} for name, arguments in self.calls]
        return {"messages": self.messages, "tool_calls": calls}


MEANT: Final = st.builds(Meant, st.lists(TEXTS, max_size=3), st.lists(_CALLS, max_size=3))
SAYING: Final = MEANT.filter(lambda meant: bool(meant.shown))


def said(reading: AgentReply) -> Meant:
    """Return what a reading says."""
    return Meant(list(reading.messages), [(call.name, call.arguments) for call in reading.calls])


def tagged(meant: Meant) -> str:
    """Return the calls as many open models write them."""
    bodies = [json.dumps({"name": name, "arguments": arguments}) for name, arguments in meant.calls]
    return "\n".join(f"<tool_call>\n{body}\n</tool_call>" for body in bodies)


def _with_commas(text: str) -> str:
    """Add a comma before each closing bracket outside of strings."""
    return re.sub(r'("(?:[^"\\]|\\.)*")|(?<=[^\s\[{,])\s*([\]}])', lambda m: m[1] or f",{m[2]}", text)


FORMS: Final[dict[str, Callable[[Any], str]]] = {
    "plain": json.dumps,
    "unescaped": lambda value: json.dumps(value, ensure_ascii=False),
    "indented": lambda value: json.dumps(value, indent=2),
    "fenced": lambda value: f"```json\n{json.dumps(value)}\n```",
    "explained": lambda value: f"Here's my reply, as asked:\n\n{json.dumps(value, indent=1)}\n\n",
    "python": repr,
    "encoded twice": lambda value: json.dumps(json.dumps(value)),
    "trailing commas": lambda value: _with_commas(json.dumps(value)),
    "commented": lambda value: "// mine\n" + json.dumps(value, indent=1).replace(",\n", ", // next\n", 1),
    "after reasoning": lambda value: f"<think>I write {{'messages': [\"x\n</think>\n{json.dumps(value)}",
    "reasoning begun in the prompt": lambda value: f'So {{"messages": ["no"]}}?\n</think>\n{json.dumps(value)}',
    "with tokens": lambda value: f"<|im_start|>assistant\n{json.dumps(value)}<|im_end|>",
    "without outer brackets": lambda value: json.dumps(value)[:-2],
    "wrapped": lambda value: json.dumps({"reply": value}),
    "keys bare": lambda value: (
        json.dumps(value).replace('"messages"', "messages", 1).replace(', "tool_calls"', ", tool_calls", 1)
    ),
}
"""Ways to write a value that lose nothing, by name."""
