"""Finds in the text of a reply: reasoning, JSON, tool calls in other forms, and the text between them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any, Final

from msgspec import Struct, field

from runtime.agents.reply.agent_reply import BLANK
from runtime.agents.reply.relaxed_json import BrokenJson, Reader, TooComplex
from runtime.agents.reply.text_marks import (
    CALL_END,
    CALL_HEAD,
    CALL_TAG,
    FENCE_AFTER,
    FENCE_BEFORE,
    PARAMETER,
    PARAMETER_END,
    REASONING,
    REASONING_END,
    TOKEN,
    end_of_reasoning,
)

MAX_MARKS: Final = 5_000
"""Maximum number of places of a text at which something else than text may begin; what follows is text."""

_SEPARATORS: Final = BLANK + ",;.:()[]{}`'\"-*_"
_VISIBLE: Final = re.compile(r"\S")
_MARKS: Final = re.compile(r"(?:```+|~~~+)[ \t]*[\w+-]*|`|</?[\w:-]{1,40}>")

Recognize = Callable[[Any, bool], bool]
"""Returns True if a value is part of a reply. The flag: it is marked as a tool call."""


class ReplyJson(Struct):
    """A value that is part of a reply, and its text. `tagged`: it is marked as a tool call."""

    value: Any
    text: str
    tagged: bool = False


class OtherJson(Struct):
    """JSON that is not part of a reply."""

    text: str


class Mark(Struct):
    """A mark of tool calls, which is text where there are no calls."""

    text: str


class Document(Struct, kw_only=True):
    """A text in its parts. `reader`: what was assumed about the values. `open_reasoning`: one that no mark ends.

    `incomplete`: the text has more places at which something may begin than are looked at.
    """

    reader: Reader
    parts: list[str | ReplyJson | OtherJson | Mark] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    open_reasoning: str | None = None
    incomplete: bool = False

    @property
    def values(self) -> list[ReplyJson]:
        """The values that are part of a reply."""
        return [part for part in self.parts if isinstance(part, ReplyJson)]

    @property
    def text(self) -> str:
        """The text with all that is in it, except for reasoning and the tokens of templates."""
        texts = [part if isinstance(part, str) else part.text for part in self.parts if not isinstance(part, ReplyJson)]
        return "".join(texts).strip(BLANK)

    @property
    def whole(self) -> str:
        """The text with all that is in it, values included."""
        return "".join(part if isinstance(part, str) else part.text for part in self.parts)

    @property
    def texts_between(self) -> list[str]:
        """The texts before, between and after values, without those of marks and punctuation only."""
        texts = [""]
        for part in self.parts:
            if isinstance(part, ReplyJson):
                texts[-1] = FENCE_BEFORE.sub("", texts[-1])
                texts.append("")
            elif not isinstance(part, Mark):
                texts[-1] += part if isinstance(part, str) else part.text
        texts[1:] = [FENCE_AFTER.sub("", text, count=1) for text in texts[1:]]
        return [text.strip(BLANK) for text in texts if _MARKS.sub("", text).strip(_SEPARATORS)]

    def quote_calls(self, is_call: Callable[[Any], bool]) -> bool:
        """Make calls that have no marks, and text after them, a part of the text. True if there are any."""
        found = False
        for index in self._before_text():
            part = self.parts[index]
            if isinstance(part, ReplyJson) and not part.tagged and is_call(part.value):
                self.parts[index] = OtherJson(part.text)
                found = True
        return found

    def has_text_after(self, has_calls: Callable[[Any], bool]) -> bool:
        """True if text follows a value that has calls."""
        before = [self.parts[index] for index in self._before_text()]
        return any(isinstance(part, ReplyJson) and has_calls(part.value) for part in before)

    def _before_text(self) -> range:
        """Return the indexes of the parts before the last one that is text, more than fences, tags and punctuation, or
        other JSON."""
        for index in reversed(range(len(self.parts))):
            part = self.parts[index]
            if isinstance(part, OtherJson) or (isinstance(part, str) and _MARKS.sub("", part).strip(_SEPARATORS)):
                return range(index)
        return range(0)

    @property
    def unread_text(self) -> str:
        """The text that is neither a reply nor other JSON."""
        return "\n".join(part for part in self.parts if isinstance(part, str))


def find_parts(text: str, tools: Collection[str], recognize: Recognize) -> Document:
    """Return the parts of a text. `tools`: names of known tools."""
    return _Scanner(text, tools, recognize).document


class _Scanner:
    """One pass over a text. Attempts to read JSON that fail are limited in number and in length."""

    def __init__(self, text: str, tools: Collection[str], recognize: Recognize) -> None:
        self._text = text
        self._recognize = recognize
        self._reader = Reader(text)
        self.document = Document(reader=self._reader)
        self._prose_from = 0
        self._tagged = False
        self._wasted = 0
        self._reasoned_until = 0
        names = "|".join(map(re.escape, tools))
        calls = rf"|^[ \t]*(?:{names})\(" if names else ""
        self._begin = re.compile(rf"[<\[{{]{calls}|\Z", re.MULTILINE)
        self._scan()

    def _scan(self) -> None:
        at = 0
        for _ in range(MAX_MARKS):
            begin = self._begin.search(self._text, at)
            if begin is None or begin.start() == len(self._text):
                break
            at = self._read_at(begin.start())
        else:
            self.document.incomplete = True
        self._add_prose(len(self._text))
        if reasoning := self._text[: self._reasoned_until].strip():
            self.document.reasoning.insert(0, reasoning)

    def _read_at(self, at: int) -> int:
        """Read what begins at a mark, and return where to go on."""
        text = self._text
        if head := CALL_HEAD.match(text, at):
            return self._call(head)
        if begin := REASONING.match(text, at):
            return self._skip_reasoning(begin)
        if end := REASONING_END.match(text, at):
            return self._end_reasoning(end)
        if tag := CALL_TAG.match(text, at):
            self._add_prose(at)
            self._tagged = True
            self.document.parts.append(Mark(tag[0]))
            self._prose_from = tag.end()
            return tag.end()
        if token := TOKEN.match(text, at):
            self._add_prose(at)
            self._prose_from = token.end()
            return token.end()
        if text[at] == "<":
            return at + 1
        return self._json(at)

    def _skip_reasoning(self, begin: re.Match[str]) -> int:
        self._add_prose(begin.start())
        found = end_of_reasoning(begin).search(self._text, begin.end())
        content = self._text[begin.end() : found.start() if found else len(self._text)].strip()
        if found is None:
            self.document.open_reasoning = content
        self.document.reasoning.append(content)
        self._prose_from = found.end() if found else len(self._text)
        return self._prose_from

    def _end_reasoning(self, end: re.Match[str]) -> int:
        """End a reasoning whose begin is in the prompt: all before is reasoning, unless nothing follows."""
        self._add_prose(end.start())
        if _VISIBLE.search(self._text, end.end()):
            self._reasoned_until = end.start()
            self.document.reasoning.clear()
            self.document.parts.clear()
            self._reader.restore((0, 0, False))
        self._prose_from = end.end()
        return end.end()

    def _json(self, at: int) -> int:
        reader = self._reader
        before = reader.assumptions()
        try:
            value, end = reader.value(at)
        except TooComplex:
            reader.restore(before)
            self.document.incomplete = True
            return len(self._text)
        except BrokenJson as error:
            reader.restore(before)
            return self._after_failure(at, error.position)
        if not self._recognize(value, self._tagged):
            if end == len(self._text) and reader.assumptions() != before:
                reader.restore(before)
                return self._after_failure(at, end)
            self._add_prose(at)
            self.document.parts.append(OtherJson(self._text[at:end]))
            self._prose_from = end
            return end
        self._add_prose(at)
        self._add_value(ReplyJson(value, self._text[at:end], self._tagged), end)
        return end

    def _after_failure(self, at: int, reached: int) -> int:
        self._wasted += reached - at
        return at + 1 if self._wasted < len(self._text) + 1_000 else max(at + 1, reached)

    def _call(self, head: re.Match[str]) -> int:
        """Read a call whose name is before its arguments."""
        text, reader = self._text, self._reader
        assert head.lastgroup is not None
        arguments: Any = {}
        call = {"name": head[head.lastgroup], "args": arguments}
        at, before = reader.space(head.end()), reader.assumptions()
        if text[at : at + 1] in ("{", "["):
            try:
                arguments, at = reader.value(at)
            except BrokenJson:
                reader.restore(before)
                return head.end()
            call["args"] = arguments
        elif PARAMETER.match(text, at):
            at = self._parameters(at, arguments)
        elif not CALL_END.match(text, at):
            if at < len(text):
                return head.end()
            reader.unclosed += [call, arguments]
        self._add_prose(head.start())
        end = CALL_END.match(text, reader.space(at))
        self._add_value(ReplyJson(call, text[head.start() : at], tagged=True), end.end() if end else at)
        return self._prose_from

    def _parameters(self, at: int, arguments: dict[str, Any]) -> int:
        text = self._text
        while parameter := PARAMETER.match(text, at):
            end = PARAMETER_END.search(text, parameter.end())
            value = text[parameter.end() : end.start() if end else len(text)]
            key = parameter["key"] or parameter["glm_key"].strip()
            self._reader.add(arguments, key, value.removeprefix("\n").removesuffix("\n"))
            at = end.end() if end else len(text)
        if not CALL_END.match(text, self._reader.space(at)):
            self._reader.unclosed.append(arguments)
        return at

    def _add_value(self, found: ReplyJson, end: int) -> None:
        self.document.parts.append(found)
        self._tagged = False
        self._prose_from = end

    def _add_prose(self, end: int) -> None:
        if end > self._prose_from:
            self.document.parts.append(self._text[self._prose_from : end])
        self._prose_from = end
