"""Broken replies as models write them, and how each is read.

A file of `tests/golden/replies` has cases of one kind: `=== name`, the text, `==>` and the reading. Options after the
name: `length` (it was cut off), `native` (a JSON object of `text` and `calls`), `json` (the text is a JSON string).
`UPDATE_GOLDEN=1 pytest tests/runtime/agents/reply/test_golden_replies.py` rewrites the readings; read them before they
are committed.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from runtime.agents.reply.agent_reply import AgentReply
from runtime.agents.reply.reading import read_reply
from runtime.models.request import Reply, ToolCall
from tests.cases import each_case
from tests.runtime.agents.reply.toolset import TOOLS

FOLDER = Path(__file__).parents[3] / "golden" / "replies"
FILES = sorted(FOLDER.glob("*.txt"))


class Case(NamedTuple):
    file: str
    name: str
    options: list[str]
    text: str
    expected: str

    def reading(self) -> AgentReply:
        return read_reply(self.reply(), TOOLS, "native" if "native" in self.options else "json")

    def reply(self) -> Reply:
        finish: Any = "length" if "length" in self.options else "stop"
        if "native" in self.options:
            given = json.loads(self.text)
            calls = tuple(msgspec.convert(call, ToolCall) for call in given["calls"])
            return Reply(text=given["text"], calls=calls, finish=finish)
        return Reply(text=json.loads(self.text) if "json" in self.options else self.text, finish=finish)


def _cases(file: Path) -> list[Case]:
    found = []
    for part in re.split(r"^=== ", file.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        head, _, rest = part.partition("\n")
        name, *options = head.split()
        text, _, expected = rest.partition("\n==>\n")
        found.append(Case(file.stem, name, options, text, expected.strip()))
    return found


CASES = [case for file in FILES for case in _cases(file)]


def _shown(reading: AgentReply) -> str:
    """Return a reading as JSON, one key on a line, without what is false or empty."""
    values: dict[str, Any] = {"rung": reading.rung, "lossless": reading.lossless, "problem": reading.problem}
    values["messages"] = list(reading.messages)
    values["calls"] = [[call.name, call.arguments] for call in reading.calls]
    values["reasoning"] = reading.reasoning
    kept = {key: value for key, value in values.items() if value or key in ("rung", "lossless")}
    lines = [f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in kept.items()]
    return "{" + ",\n ".join(lines) + "}"


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.stem))
def test_broken_replies_are_read_as_before(file: Path) -> None:
    cases = _cases(file)
    if os.environ.get("UPDATE_GOLDEN"):
        texts = [
            f"=== {' '.join([case.name, *case.options])}\n{case.text}\n==>\n{_shown(case.reading())}\n"
            for case in cases
        ]
        file.write_text("\n".join(texts), encoding="utf-8")
        cases = _cases(file)
    assert {case.name: _shown(case.reading()) for case in cases} == {case.name: case.expected for case in cases}


def test_there_are_at_least_150_cases_with_different_names() -> None:
    names = [(case.file, case.name) for case in CASES]
    assert len(set(names)) == len(names) >= 150


@each_case("case", CASES, lambda case: f"{case.file}/{case.name}")
def test_a_cut_off_reply_is_never_lossless(case: Case) -> None:
    reply = msgspec.structs.replace(case.reply(), finish="length")
    assert not read_reply(reply, TOOLS, "native" if "native" in case.options else "json").lossless
