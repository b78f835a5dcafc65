"""Answers of services that speak OpenAI's API in their own ways, and what becomes of each.

`tests/golden/quirks.txt` has a case for each: `=== name options`, the answers, `==>` and the outcome. Options:
`streamed` and `whole` (how the service is asked; by default both), `native` (tools by the model's own interface),
`escaped` (the answers have escapes of Python). An answer is what the service sends; `--- 400` before it is its status,
which is 200 otherwise. After the answers of a case the service says `It rained.`, in the form that is asked for.
`UPDATE_GOLDEN=1 pytest tests/runtime/models/test_quirks.py` rewrites the outcomes; read them before they are committed.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

from aiohttp import web

from runtime.agents.reply.reading import read_reply
from runtime.errors import SymbiontError
from runtime.models.openai import OpenAIModel, OpenAIOptions
from runtime.models.request import Message, Reply, Request, ToolCall
from tests.runtime.agents.reply.toolset import TOOLS
from tests.runtime.models.services import Answer, Question, Service, serving, text

FILE = Path(__file__).parents[2] / "golden" / "quirks.txt"
MODES = ("streamed", "whole")
SCHEMA = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"], "additionalProperties": False}
_CUT = 11
"""Bytes that arrive together."""


class Quirk(NamedTuple):
    name: str
    options: list[str]
    text: str
    outcome: str

    @property
    def modes(self) -> list[str]:
        return [mode for mode in MODES if mode in self.options] or list(MODES)

    @property
    def answers(self) -> list[Answer]:
        found = re.split(r"(?:\A|\n)--- (\d{3})\n", self.text)
        given = [*([("200", found[0])] if found[0] else []), *zip(found[1::2], found[2::2], strict=True)]
        return [self._answer(int(status), body) for status, body in given]

    def _answer(self, status: int, body: str) -> Answer:
        data = body.encode()
        if "escaped" in self.options:
            data = body.replace("\n", "").encode().decode("unicode_escape").encode("latin-1")

        async def answer(question: Question) -> web.StreamResponse:
            response = web.StreamResponse(status=status)
            response.content_type = "text/plain" if data[:1].isalpha() else "application/json"
            await response.prepare(question.request)
            for at in range(0, len(data), _CUT):
                await response.write(data[at : at + _CUT])
            return response

        return answer


def _quirks() -> list[Quirk]:
    found = []
    for part in re.split(r"^=== ", FILE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        head, _, rest = part.partition("\n")
        name, *options = head.split()
        given, _, outcome = rest.partition("\n==>\n")
        found.append(Quirk(name, options, given, outcome.strip()))
    return found


QUIRKS = _quirks()


def _request(native: bool, service: Service) -> Request:
    said = (Message("system", "You help."), Message("user", "Did it rain?"))
    if not native:
        return Request(messages=said, max_tokens=50, schema=SCHEMA, stop=("END",))
    returned = {"call": {"extra_content": {"signature": "s"}}, "message": {"reasoning_details": [{"data": "d"}]}}
    extra = {"service": f"{service.host} m", **returned}
    call = ToolCall("c0", "archival_search", '{"query":"rain"}', extra)
    called = (Message("assistant", "", (call,), reasoning="Hm."), Message("tool", "nothing", call_id=call.id))
    return Request(messages=(*said, *called), max_tokens=50, tools=tuple(TOOLS))


async def _outcome(service: Service, quirk: Quirk, mode: str) -> str:
    """Return what becomes of the answers: the reading of the reply or the error, and how the service was asked."""
    service.answers, service.bodies = [*quirk.answers, *[text("It rained.")] * 3], []
    native = "native" in quirk.options
    model = OpenAIModel(OpenAIOptions(url=service.url, model="m"), None)
    shown: list[str] = []
    try:
        if mode == "whole":
            reply = await model.reply(_request(native, service))
        else:
            *parts, last = [part async for part in model.stream(_request(native, service))]
            assert isinstance(last, Reply)
            reply, shown = last, [str(part) for part in parts]
    except SymbiontError as error:
        told = error.line().replace(service.host, "HOST")
        return f"{type(error).__name__}: {told}" + _asked(service.bodies)
    finally:
        await model.close()
    reading = read_reply(reply, TOOLS, "native" if native else "json")
    found: dict[str, Any] = {"messages": list(reading.messages)}
    found["calls"] = [[call.name, call.arguments] for call in reading.calls]
    extra = [{key: value for key, value in call.extra.items() if key != "service" and value} for call in reply.calls]
    found |= {"extra": [each for each in extra if each], "reasoning": reading.reasoning}
    found |= {"problem": reading.problem, "tokens": reply.usage.tokens_in}
    lossless = "" if reading.lossless else " not lossless"
    assert "".join(shown) in ("", reply.text)
    return (
        json.dumps({key: each for key, each in found.items() if each}, ensure_ascii=False)
        + lossless
        + _asked(service.bodies)
    )


def _asked(bodies: list[dict[str, Any]]) -> str:
    """Return how the last request differs from the first, if there were several."""
    if len(bodies) == 1:
        return ""
    first, last = (_paths(bodies[0]), _paths(bodies[-1]))
    changes = [f"-{each}" for each in sorted(first - last)] + [f"+{each}" for each in sorted(last - first)]
    return f" [{len(bodies)} requests: {' '.join(changes)}]"


def _paths(body: dict[str, Any]) -> set[str]:
    """Return the fields of a request, and those of its messages and calls."""
    found = {key for key in body if key != "stream"} | {f"stream={json.dumps(body['stream'])}"}
    for message in body["messages"]:
        found |= {f"role={message['role']}", *(f"messages.{key}" for key in message)}
        found |= {f"tool_calls.{key}" for call in message.get("tool_calls", ()) for key in call}
    return found


async def _shown(service: Service, quirk: Quirk) -> str:
    outcomes = [await _outcome(service, quirk, mode) for mode in quirk.modes]
    if len(set(outcomes)) == 1:
        return outcomes[0]
    return "\n".join(f"{mode}: {outcome}" for mode, outcome in zip(quirk.modes, outcomes, strict=True))


async def test_each_quirk_of_a_service_has_its_outcome() -> None:
    async with serving("openai") as service:
        outcomes = {quirk.name: await _shown(service, quirk) for quirk in QUIRKS}
    if os.environ.get("UPDATE_GOLDEN"):
        texts = [
            f"=== {' '.join([quirk.name, *quirk.options])}\n{quirk.text}\n==>\n{outcomes[quirk.name]}\n"
            for quirk in QUIRKS
        ]
        FILE.write_text("\n".join(texts), encoding="utf-8")
        return
    assert outcomes == {quirk.name: quirk.outcome for quirk in QUIRKS}


def test_there_are_at_least_74_quirks_with_different_names() -> None:
    assert len({quirk.name for quirk in QUIRKS}) == len(QUIRKS) >= 74
