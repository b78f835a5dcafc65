"""Reads the reply of a model: messages and calls, from JSON, broken JSON, native calls or plain text."""

from __future__ import annotations

import html
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from runtime.agents.reply.agent_reply import BLANK, AgentCall, AgentReply, Problem, Rung, ToolCalling
from runtime.agents.reply.call_reading import read_call
from runtime.agents.reply.document import Document, Found, Mark, Other, find_parts
from runtime.agents.reply.json_text.relaxed import BrokenJson, Reader
from runtime.agents.reply.json_text.repair import repaired
from runtime.agents.reply.json_text.strict import read_strictly
from runtime.agents.reply.reply_values import JOINED, MAX_CALLS, Contents, RawCall, ValueReader, extend
from runtime.agents.reply.tool_names import ToolNames
from runtime.memory.item import well_formed
from runtime.models.request import Reply, ToolCall, ToolSchema

_ATTEMPT: Final = re.compile(
    r"\A\W{0,20}\{"
    r"|[\"'“„«「『＂`]\s?(?:messages|tool_calls?)\b"
    r"|^[ \t]*(?:messages|tool_calls?)[ \t]*[:：=]",
    re.MULTILINE,
)
"""The text was meant as a reply in JSON."""
_BROKEN: Final = re.compile(
    _ATTEMPT.pattern + r"|[\"'“„«](?:name|tool|function|action|args|arguments|parameters)[\"'”“»]\s*[:：]", re.MULTILINE
)
"""The text beside other values was meant as a part of a reply in JSON."""
_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_CALL_BEGIN: Final = re.compile(r"\W{0,20}([\w-]{1,64})\s?\(")
_MOST_ENCODINGS: Final = 2
_MAX_MESSAGES: Final = 64
"""Maximum number of messages of a reply; those after it are one."""


def read_reply(reply: Reply, tools: Sequence[ToolSchema], calling: ToolCalling = "json") -> AgentReply:
    """Return what a reply says. Pure; it raises nothing.

    The ladder: without reasoning, as valid JSON, as JSON with changes that lose nothing, repaired, as one message. In
    `native`, text is a message, and calls in it count only where marks say so or the text is nothing else.
    """
    return _Reading(reply, ToolNames(tools), calling).result()


class _Reading:
    def __init__(self, reply: Reply, tools: ToolNames, calling: ToolCalling) -> None:
        self._reply = reply
        self._tools = tools
        self._values = ValueReader(tools)
        self._native = calling == "native"
        self._messages: list[str] = []
        self._calls: list[AgentCall] = []
        self._rung: Rung = "strict"
        self._lossless = True
        self._malformed = False
        # The reply has its own form, so that it may say nothing on purpose.
        self._in_form = False
        self._reasoning = [reply.reasoning.strip()] if reply.reasoning.strip() else []

    def result(self) -> AgentReply:
        self._read_text(_joined_surrogates(self._reply.text).strip(BLANK), _MOST_ENCODINGS)
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
            reasoning=well_formed("\n\n".join(self._reasoning)),
        )

    def _read_text(self, text: str, encodings: int) -> None:
        if not text:
            self._rung = "strict" if self._reply.calls else "text"
            return
        if not self._native or text[0] in "{[":
            try:
                value, reader = read_strictly(text, JOINED)
            except BrokenJson:
                pass
            else:
                if self._read_whole(value, reader, encodings):
                    return
        decoded = _decoded(text) if encodings else None
        if decoded is not None:
            self._rung = "lossless"
            self._read_text(decoded.strip(BLANK), encodings - 1)
            self._lower("lossless")
            return
        self._read_parts(text)

    def _read_whole(self, value: Any, reader: Reader, encodings: int) -> bool:
        """Read a text that is one JSON value. False if it is no reply."""
        if isinstance(value, str):
            inner = value.strip(BLANK)
            if inner[:1] in ("{", "[", '"') and encodings:
                self._read_text(inner, encodings - 1)
                self._lower("lossless")
                return True
        recognized = self._values.recognizes(value, False)
        contents = self._contents_of_whole(
            Found(value, self._reply.text) if recognized else Other(value, self._reply.text)
        )
        if contents is None:
            return False
        self._add(contents, reader)
        self._in_form = recognized
        if not isinstance(value, dict) or "messages" not in value:
            self._lower("lossless")
        return True

    def _contents_of_whole(self, only: Found | Other) -> Contents | None:
        """Return what a text says that is one JSON value only, or None. In a native reply it may be for the person."""
        if self._native and isinstance(only, Other):
            return None
        return self._values.read(only.value)

    def _read_parts(self, text: str) -> None:
        # A native reply may show JSON to the person.
        only_marked = self._native and text[0] not in "{[`"
        document = find_parts(
            text,
            () if only_marked else list(self._tools.schemas),
            lambda value, tagged: (tagged or not only_marked) and self._values.recognizes(value, tagged),
            JOINED,
        )
        self._reasoning += filter(None, document.reasoning)
        if document.open_reasoning is not None and not document.values:
            self._read_after_reasoning(document)
            return
        # A call in the middle of a text may be an example, or quoted from a payload.
        if document.quoted(self._values.is_call_only):
            self._guess("repaired")
        if document.only is not None and (contents := self._contents_of_whole(document.only)) is not None:
            self._lower("lossless")
            self._in_form = bool(document.values)
            self._add(contents, document.reader)
        elif document.values:
            self._read_values(document)
        else:
            self._read_prose(document)

    def _read_values(self, document: Document) -> None:
        self._in_form = True
        broken = _BROKEN.search(document.unread) is not None
        fragments = all(self._values.is_call_only(each.value) for each in document.values)
        if broken and fragments and self._repair(document.whole, document):
            return
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
            found.messages = document.between
        # A reply with calls in the middle of a text may be quoted, too; and a model that goes on after its calls may
        # have invented their outputs.
        found.unreadable = found.unreadable or document.goes_on_after(self._has_calls)
        self._add(found, document.reader)

    def _has_calls(self, value: Any) -> bool:
        contents = self._values.read(value)
        return contents is not None and bool(contents.calls)

    def _read_after_reasoning(self, document: Document) -> None:
        """Read the last reply in a reasoning that was not ended: it may be a draft. A reply that was cut off there has
        only drafts."""
        self._messages.append(document.text)
        self._rung = "text"
        if self._reply.finish == "length" or document.open_reasoning is None:
            return
        inner = find_parts(document.open_reasoning, list(self._tools.schemas), self._values.recognizes, JOINED)
        if inner.values:
            self._guess("repaired")
            self._add(self._values.read(inner.values[-1].value) or Contents(), inner.reader)

    def _read_prose(self, document: Document) -> None:
        text = document.text
        self._rung = "text"
        if self._is_attempt(document):
            if self._repair(text, document):
                return
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
        return _ATTEMPT.search(document.text) is not None or (
            name is not None and self._tools.find(name[1]) is not None
        )

    def _add(self, contents: Contents, reader: Reader) -> None:
        self._messages += contents.messages
        if contents.unreadable or reader.guessed:
            self._guess("repaired")
        elif reader.unclosed or reader.implied:
            self._lower("lossless")
        for call in contents.calls:
            self._add_call(call, reader)

    def _add_call(self, raw: RawCall, reader: Reader) -> None:
        if len(self._calls) == MAX_CALLS:
            self._guess("repaired")
            return
        call, rung = read_call(raw, reader, self._tools, f"call_{len(self._calls) + 1}")
        self._calls.append(call)
        if rung == "repaired":
            self._guess(rung)
        else:
            self._lower(rung)

    def _add_native(self, call: ToolCall) -> None:
        arguments: Any = {}
        text = _joined_surrogates(call.arguments).strip(BLANK)
        reader = Reader(text)
        if text:
            try:
                arguments, reader = read_strictly(text, frozenset())
            except BrokenJson:
                arguments = text
        ids = {each.id for each in self._calls}
        self._add_call(RawCall(call.name.strip(), arguments), reader)
        if reader.guessed:
            self._guess("repaired")
        if len(self._calls) > len(ids):
            last = self._calls[-1]
            own = well_formed(call.id)
            free = own if own and own not in ids else next(each for each in _ids() if each not in ids)
            self._calls[-1] = AgentCall(free, last.name, last.arguments)

    def _repair(self, text: str, document: Document) -> bool:
        """Read a broken text by guessing. False if that gives neither messages nor calls."""
        value = repaired(text[_start(text) :])
        contents = None if value is None else self._values.read(value)
        if contents is None or not (contents.messages or contents.calls):
            return False
        if "tool_calls" in text and not (isinstance(value, dict) and "tool_calls" in value) and not contents.calls:
            # A part of what was taken for messages is the list of calls.
            return False
        self._guess("repaired")
        self._add(contents, document.reader)
        return True

    def _lower(self, rung: Rung) -> None:
        """Note that a reply was not read by a higher rung than `rung`."""
        if self._rung == "strict":
            self._rung = rung

    def _guess(self, rung: Rung) -> None:
        self._rung = rung
        self._lossless = False
        self._malformed = True


def _ids() -> Iterator[str]:
    return (f"call_{number}" for number in itertools.count(1))


def _decoded(text: str) -> str | None:
    """Return a text that is encoded as a whole: as HTML, or as the inside of a JSON string."""
    if text.startswith(("{&quot;", "[{&quot;", "{&#34;")):
        return html.unescape(text)
    if re.match(r"[\[{\s]*\\[\"n]", text) and text[0] in "[{":
        try:
            return str(json.loads(f'"{text}"', strict=False))
        except ValueError:
            return None
    return None


def _start(text: str) -> int:
    found = re.search(r"[{\[｛［]|[\"'“„«]?\b(?:messages|tool_calls)\b", text)
    return found.start() if found else 0


def _joined(pair: re.Match[str]) -> str:
    return pair[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def _joined_surrogates(text: str) -> str:
    """Return a text in which pairs of surrogates are characters; lone ones become U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return well_formed(_PAIR.sub(_joined, text))
    return text
