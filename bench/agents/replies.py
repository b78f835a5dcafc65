"""`python -m bench.agents.replies [--json] [--characters N]`: the reading of replies, in processor time.

A reply of one message and two calls, valid and as models break it, compared with `json.loads` of the valid one. Texts
that repeat one piece, of N characters and of a quarter of them, read whole, and streamed in parts of 16 characters: the
time must grow with the length, not with its square.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import NamedTuple

from bench.harness.report import command_line, show
from runtime.agents.reply.reading import read_reply
from runtime.agents.reply.reply_stream import ReplyStream
from runtime.models.request import Reply
from tests.runtime.agents.reply.toolset import TOOLS

CHARACTERS = 2**20
ROUNDS = 3
_CALLS = [
    {"name": "memory_append", "args": {"label": "human", "content": "Ada likes her tea strong, without milk."}},
    {"name": "archival_search", "args": {"query": "tea", "limit": 5}},
]
_VALUE = {"messages": ["I noted that you like your tea strong.\n\nLet me look for more. " * 4], "tool_calls": _CALLS}
VALID = json.dumps(_VALUE)
REPLIES = {
    "valid": VALID,
    "in a fence": f"```json\n{VALID}\n```",
    "Python": repr(_VALUE),
    "two tagged calls": "\n".join(f"<tool_call>{json.dumps(call)}</tool_call>" for call in _CALLS),
    "plain text": "I noted that you like your tea strong. " * 10,
}
PIECES = {
    "one message": ('{"messages": ["', "Tea is a drink. "),
    "escapes": ('{"messages": ["', "\\n"),
    "plain text": ("", "Tea is a drink. "),
    "code": ("", "if (a) { return [1]; }\n"),
    "replies": ("", '{"messages": ["Tea."], "tool_calls": []}\n'),
    "opening braces": ("", "{"),
    "opening objects": ("", '{"messages":['),
    "quotes": ("", '"'),
    "marks": ("", "<tool_call>"),
}


class Row(NamedTuple):
    """Milliseconds, and the ratio to what they are compared with."""

    name: str
    milliseconds: float
    ratio: float


class Result(NamedTuple):
    """`small`: compared with `json.loads`. `large`, `streamed`: compared with a quarter of the text."""

    small: list[Row]
    large: list[Row]
    streamed: list[Row]


def _fastest(work: Callable[[], object], rounds: int, times: int = 1) -> float:
    """Return the fewest milliseconds of processor time that one call took on average in a round."""
    found = []
    for _ in range(rounds):
        began = time.process_time()
        for _ in range(times):
            work()
        found.append((time.process_time() - began) * 1_000 / times)
    return min(found)


def _read(text: str) -> None:
    read_reply(Reply(text=text), TOOLS)


def _stream(text: str) -> None:
    stream = ReplyStream()
    for at in range(0, len(text), 16):
        stream.feed(text[at : at + 16])


def _growth(work: Callable[[str], None], characters: int, rounds: int) -> list[Row]:
    rows = []
    for name, (begin, piece) in PIECES.items():
        whole, quarter = (begin + piece * (length // len(piece)) for length in (characters, characters // 4))
        large = _fastest(lambda text=whole: work(text), rounds)  # type: ignore[misc]
        small = _fastest(lambda text=quarter: work(text), rounds)  # type: ignore[misc]
        rows.append(Row(name, large, large / max(small, 0.001)))
    return rows


def measure(characters: int = CHARACTERS, rounds: int = ROUNDS) -> Result:
    """Measure everything; the time of large texts grows with `characters`."""
    bare = _fastest(lambda: json.loads(VALID), rounds, 200)
    times = {
        name: _fastest(lambda text=text: _read(text), rounds, 200)  # type: ignore[misc]
        for name, text in REPLIES.items()
    }
    small = [Row(name, taken, taken / max(bare, 0.000_001)) for name, taken in times.items()]
    return Result(small, _growth(_read, characters, rounds), _growth(_stream, characters, rounds))


def _table(result: Result) -> str:
    lines = ["| reply | µs | times `json.loads` |", "|---|---:|---:|"]
    lines += [f"| {row.name} | {row.milliseconds * 1_000:.0f} | {row.ratio:.1f} |" for row in result.small]
    lines += [
        "",
        "| repeated | read ms | times a quarter | streamed ms | times a quarter |",
        "|---|---:|---:|---:|---:|",
    ]
    for row, streamed in zip(result.large, result.streamed, strict=True):
        read, stream = (f"{each.milliseconds:.0f} | {each.ratio:.1f}" for each in (row, streamed))
        lines.append(f"| {row.name} | {read} | {stream} |")
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = command_line("agents.replies", __doc__, characters=(CHARACTERS, "characters of a large text"))
    options = parser.parse_args()
    show(measure(options.characters), _table, as_json=options.json)


if __name__ == "__main__":
    main()
