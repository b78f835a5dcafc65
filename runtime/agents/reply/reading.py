"""Reads the reply of a model: messages and calls, from JSON, broken JSON, native calls or plain text."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from runtime.agents.reply.agent_reply import BLANK, AgentCall, AgentReply, Problem, Rung, ToolCalling
from runtime.agents.reply.call_reading import read_call
from runtime.agents.reply.document import Document, Mark, find_parts
from runtime.agents.reply.relaxed_json import BrokenJson, Reader
from runtime.agents.reply.reply_values import MAX_CALLS, Contents, RawCall, ValueReader, extend
from runtime.agents.reply.strict_json import read_strictly
from runtime.memory.item import well_formed
from runtime.models.request import Reply, ToolCall, ToolSchema

_ATTEMPT: Final = re.compile(
    r"\A\W{0,20}\{"
    r"|[\"'“„«「『＂`]\s?(?:messages|tool_calls?)\b"
    r"|^[ \t]*(?:messages|tool_calls?)[ \t]*[:：=]"
    r"|^Action:[ \t]*\w",
    re.MULTILINE,
)
"""The text was meant as a reply in JSON."""
_BROKEN: Final = re.compile(
    _ATTEMPT.pattern + r"|[\"'“](?:name|tool|function|action|args|arguments|parameters)[\"'”]\s*:", re.MULTILINE
)
"""The text beside other values was meant as a part of a reply in JSON."""
_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_CALL_BEGIN: Final = re.compile(r"\W{0,20}([\w-]{1,64})\s?\(")
_MAX_MESSAGES: Final = 64
"""Maximum number of messages of a reply; those after it are one."""


def read_reply(reply: Reply, tools: Sequence[ToolSchema], calling: ToolCalling = "json") -> AgentReply:
    """Return the reading of a reply. Pure; it raises nothing.

    The ladder: without reasoning, as valid JSON, as JSON with changes that lose nothing, as one message. In `native`,
    text is a message, and calls in it count only where marks say so or the text is nothing else.
    """
    return _Reading(reply, {tool.name: tool for tool in tools}, calling).result()


class _Reading:
    def __init__(self, reply: Reply, tools: Mapping[str, ToolSchema], calling: ToolCalling) -> None:
        self._reply = reply
        self._tools = tools
        self._values = ValueReader(tools)
        self._native = calling == "native"
        self._messages: list[str] = []
        self._calls: list[AgentCall] = []
        self._rung: Rung = "strict"
        self._lossless = True
        self._malformed = False
        self._lost = False
        # The reply has its own form, so that it may say nothing on purpose.
        self._in_form = False
        self._reasoning = [reply.reasoning.strip()] if reply.reasoning.strip() else []

    def result(self) -> AgentReply:
        # White space at its end may be that of a message that was cut off, and was shown.
        text = _join_surrogates(self._reply.text).lstrip(BLANK)
        if self._reply.finish == "malformed":
            self._guess("text")
        if not text and not self._reply.calls and self._reply.finish != "length":
            text = self._reply_in_reasoning()
        self._read_text(text)
        if self._reply.calls:
            # Services may return the same calls in the text, too.
            self._calls.clear()
            self._rung = "strict" if self._lossless else "repaired"
            for call in self._reply.calls[: MAX_CALLS + 1]:
                self._add_native(call)
        messages = [well_formed(text) for text in self._messages if text.strip(BLANK)]
        if len(messages) > _MAX_MESSAGES:
            messages[_MAX_MESSAGES - 1 :] = ["\n\n".join(messages[_MAX_MESSAGES - 1 :])]
        cut = self._reply.finish in ("length", "filtered")
        problem: Problem | None = "malformed" if self._malformed else None
        if cut:
            problem = "cut"
        elif not messages and not self._calls and problem is None and not self._in_form:
            problem = "empty"
        return AgentReply(
            messages=tuple(messages),
            calls=tuple(self._calls),
            rung=self._rung,
            lossless=self._lossless and not cut,
            problem=problem,
            lost=self._lost,
            reasoning=well_formed("\n\n".join(self._reasoning)),
        )

    def _reply_in_reasoning(self) -> str:
        """Return the reasoning if it is a reply in its own form, as some services return it; else an empty text."""
        text = self._reply.reasoning.strip(BLANK)
        try:
            value, _ = read_strictly(text) if text[:1] == "{" else (None, None)
        except BrokenJson:
            return ""
        if not self._values.recognizes(value, False):
            return ""
        self._reasoning.clear()
        return text

    def _read_text(self, text: str) -> None:
        if not text:
            self._rung = "strict" if self._reply.calls else "text"
            return
        if not self._native or text[0] in "{[":
            try:
                value, reader = read_strictly(text.rstrip(BLANK))
            except BrokenJson:
                pass
            else:
                if self._read_whole(value, reader):
                    return
        self._read_parts(text)

    def _read_whole(self, value: Any, reader: Reader) -> bool:
        """Read a text that is one JSON value. False if it is no reply."""
        if isinstance(value, str):
            inner = value.strip(BLANK)
            if inner[:1] in ("{", "[", '"'):
                self._read_text(inner)
                self._lower("lossless")
                return True
        recognized = self._values.recognizes(value, False)
        # In a native reply, other JSON may be for the person.
        contents = self._values.read(value) if recognized or not self._native else None
        if contents is None:
            return False
        self._add(contents, reader)
        self._in_form = recognized
        if not isinstance(value, dict) or "messages" not in value:
            self._lower("lossless")
        return True

    def _read_parts(self, text: str) -> None:
        # A native reply may show JSON to the person.
        only_marked = self._native and text[0] not in "{[`"
        document = find_parts(
            text,
            () if only_marked else self._tools,
            lambda value, tagged: (tagged or not only_marked) and self._values.recognizes(value, tagged),
        )
        self._reasoning += filter(None, document.reasoning)
        if document.open_reasoning is not None and not document.values:
            # A reply in a reasoning that was not ended may be a draft.
            self._messages.append(document.text)
            self._rung = "text"
            return
        # A call in the middle of a text may be an example, or quoted from a payload.
        if document.quote_calls(self._values.is_call_only):
            self._guess("repaired")
        if document.values:
            self._read_values(document)
        else:
            self._read_prose(document)

    def _read_values(self, document: Document) -> None:
        self._in_form = True
        broken = _BROKEN.search(document.unread_text) is not None
        self._lower("lossless")
        seen: set[str] = set()
        found = Contents(unreadable=document.incomplete or broken)
        for each in document.values:
            shown = repr(each.value)
            if shown in seen:
                # A model that repeats itself means it once.
                continue
            seen.add(shown)
            extend(found, self._values.read(each.value) or Contents(unreadable=True))
        if not any(text.strip(BLANK) for text in found.messages):
            found.messages = document.texts_between
        # A reply with calls in the middle of a text may be quoted, too; and a model that goes on after its calls may
        # have invented their outputs.
        found.unreadable = found.unreadable or document.has_text_after(self._has_calls)
        self._add(found, document.reader)

    def _has_calls(self, value: Any) -> bool:
        contents = self._values.read(value)
        return contents is not None and bool(contents.calls)

    def _read_prose(self, document: Document) -> None:
        text = document.text
        self._rung = "text"
        if self._is_attempt(document):
            self._guess("text")
        self._messages.append(text)

    def _is_attempt(self, document: Document) -> bool:
        """True if a text that has no reply in it was meant as one."""
        first = next((part for part in document.parts if not isinstance(part, str) or part.strip(BLANK)), None)
        if isinstance(first, Mark):
            return True
        if self._native:
            return False
        name = _CALL_BEGIN.match(document.text)
        return _ATTEMPT.search(document.text) is not None or (name is not None and name[1] in self._tools)

    def _add(self, contents: Contents, reader: Reader) -> None:
        self._messages += contents.messages
        self._lost = self._lost or contents.lost
        if contents.unreadable or contents.lost or reader.guessed:
            self._guess("repaired")
        elif reader.unclosed or reader.implied:
            self._lower("lossless")
        for call in contents.calls:
            self._add_call(call, reader)

    def _add_call(self, raw: RawCall, reader: Reader) -> None:
        if len(self._calls) == MAX_CALLS:
            self._guess("repaired")
            return
        call, rung = read_call(raw, reader, self._tools.get(raw.name), f"call_{len(self._calls) + 1}")
        self._calls.append(call)
        if rung == "repaired":
            self._guess(rung)
        else:
            self._lower(rung)

    def _add_native(self, call: ToolCall) -> None:
        arguments: Any = {}
        text = _join_surrogates(call.arguments).strip(BLANK)
        reader = Reader(text)
        if text:
            try:
                arguments, reader = read_strictly(text)
            except BrokenJson:
                arguments = text
        ids = {each.id for each in self._calls}
        self._add_call(RawCall(call.name.strip(), arguments), reader)
        if reader.guessed:
            self._guess("repaired")
        if len(self._calls) > len(ids):
            last = self._calls[-1]
            own = well_formed(call.id)
            numbered = map("call_{}".format, itertools.count(1))
            free = own if own and own not in ids else next(each for each in numbered if each not in ids)
            self._calls[-1] = AgentCall(free, last.name, last.arguments, dict(call.extra))

    def _lower(self, rung: Rung) -> None:
        """Note that a reply was not read by a higher rung than `rung`."""
        if self._rung == "strict":
            self._rung = rung

    def _guess(self, rung: Rung) -> None:
        self._rung = rung
        self._lossless = False
        self._malformed = True


def _character_of_pair(pair: re.Match[str]) -> str:
    return pair[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def _join_surrogates(text: str) -> str:
    """Return a text in which pairs of surrogates are characters; lone ones become U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return well_formed(_PAIR.sub(_character_of_pair, text))
    return text
