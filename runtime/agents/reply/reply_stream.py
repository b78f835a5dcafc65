"""Shows the messages of a reply while it arrives."""

from __future__ import annotations

import json
import re
from typing import Final, Literal

from msgspec import Struct

from runtime.agents.reply.agent_reply import BLANK, ToolCalling
from runtime.agents.reply.text_marks import REASONING, REASONING_END, end_of_reasoning
from runtime.memory.item import well_formed

_LONGEST_MARK: Final = 16
_MARK_BEGIN: Final = re.compile(r"(?:<[|/]?|\[/?)[a-zA-Z:]{0,12}\Z")
"""The end of a text that may become a mark."""

_LONGEST_ESCAPE: Final = 12
_CONTENT: Final = re.compile(
    r'(?:[^"\\]++|\\["\\/bfnrt]|\\u(?![dD][89abAB])[0-9a-fA-F]{4}'
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}(?:\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?=[^\\]|\\[^u]|\\u[^dD]|\\u[dD][^c-fC-F])))+"
)
"""Whole characters of a string. The first of two escapes that are one character waits for the second."""
_SKIPPED: Final = re.compile(r"[^\"{}\[\],]+")
_STRING_PART: Final = re.compile(r'[^"\\]+|\\.', re.DOTALL)
_SPACE: Final = re.compile(r"\s+")

_State = Literal["outside", "reasoning", "member", "key", "colon", "list", "message", "value", "string"]


class MessagePart(Struct, frozen=True):
    """Text to add to the message at `index`. A message is complete when one of a higher index begins."""

    index: int
    text: str


class ReplyStream:
    """Takes a reply in parts, and returns what of its messages can be shown: whole characters, in order.

    Its time is linear in the text. Text is shown if the reply is valid JSON, or native, as far as it has arrived. Of
    another one nothing or something else may be shown; the reading of the whole reply counts.
    """

    def __init__(self, calling: ToolCalling = "json", *, held: bool = False) -> None:
        """`held`: a native reply may begin with reasoning that has no mark, so nothing is shown before its end."""
        self._native = calling == "native"
        self._held = held and self._native
        self.has_unopened_reasoning = False
        """The end of a reasoning was found without its begin."""
        self._buffer = ""
        self._at = 0
        self._state: _State = "outside"
        self._end = REASONING_END
        self._key = ""
        self._depth = 0
        self._single = False
        self._blank: list[str] = []
        self._index = -1
        self._begun = False
        self._out: list[MessagePart] = []

    def feed(self, part: str) -> list[MessagePart]:
        """Return the text that can be shown with the next part of the reply."""
        self._buffer = self._buffer[self._at :] + part
        self._at = 0
        self._out = []
        while self._at < len(self._buffer) and self._step():
            pass
        return self._out

    def _step(self) -> bool:
        """Consume a part of the buffer. False if more text is needed."""
        match self._state:
            case "outside":
                return self._outside()
            case "reasoning":
                return self._reasoning()
            case "key" | "string":
                return self._string()
            case "message":
                return self._message()
            case "value":
                return self._skip()
            case _:
                return self._structure()

    def _take(self, end: int) -> str:
        """Consume the buffer up to a position, and return it."""
        begin, self._at = self._at, end
        return self._buffer[begin:end]

    def _outside(self) -> bool:
        begin = REASONING.search(self._buffer, self._at)
        end = REASONING_END.search(self._buffer, self._at) if self._native else None
        if end is not None and (begin is None or end.start() < begin.start()):
            self.has_unopened_reasoning, self._held = True, False
            self._at = end.end()
            return True
        brace = -1 if self._native else self._buffer.find("{", self._at)
        if begin is not None and not 0 <= brace < begin.start():
            self._held = False
            self._plain(begin.start())
            self._at = begin.end()
            self._end = end_of_reasoning(begin)
            self._state = "reasoning"
            return True
        if brace >= 0:
            self._at = brace + 1
            self._state = "member"
            return True
        if self._held:
            self._at = max(self._at, len(self._buffer) - _LONGEST_MARK)
            return False
        held = _MARK_BEGIN.search(self._buffer, max(self._at, len(self._buffer) - _LONGEST_MARK))
        self._plain(held.start() if held else len(self._buffer))
        return False

    def _plain(self, end: int) -> None:
        """Take text outside of JSON. A native reply's is one message, without the white space around it."""
        text = self._take(end)
        if self._native:
            shown = text.rstrip(BLANK)
            if shown:
                self._show(shown if self._begun else shown.lstrip(BLANK))
            if self._begun:
                self._blank.append(text[len(shown) :])

    def _reasoning(self) -> bool:
        end = self._end.search(self._buffer, self._at)
        if end is None:
            self._at = max(self._at, len(self._buffer) - _LONGEST_MARK)
            return False
        self._at = end.end()
        self._state = "outside"
        return True

    def _structure(self) -> bool:
        """Take one mark between the strings of an object, or of the list of messages."""
        if space := _SPACE.match(self._buffer, self._at):
            self._at = space.end()
            return True
        mark = self._buffer[self._at]
        if self._state == "list":
            return self._list(mark)
        if self._state == "colon":
            return self._colon(mark)
        if mark == '"':
            self._key = ""
            self._state = "key"
        elif mark != ",":
            self._state = "outside"
            if mark == "{":
                return True
        self._at += 1
        return True

    def _colon(self, mark: str) -> bool:
        if mark == ":":
            self._at += 1
        elif self._key == "messages" and mark in '["':
            self._state = "message" if mark == '"' else "list"
            self._single, self._begun = mark == '"', False
            self._at += 1
        else:
            self._state, self._depth = "value", 0
        return True

    def _list(self, mark: str) -> bool:
        if mark == '"':
            self._state, self._begun = "message", False
        elif mark == "]":
            self._state = "member"
        elif mark != ",":
            # Not a list of texts.
            self._state, self._depth = "value", 1
            return True
        self._at += 1
        return True

    def _string(self) -> bool:
        """Take a part of a string that is not shown."""
        if self._buffer[self._at] == '"':
            self._at += 1
            self._state = "colon" if self._state == "key" else "value"
            return True
        part = _STRING_PART.match(self._buffer, self._at)
        if part is None:
            return False
        text = self._take(part.end())
        if self._state == "key" and len(self._key) < 40:
            self._key += text
        return True

    def _skip(self) -> bool:
        """Take a part of a value that is not shown."""
        if part := _SKIPPED.match(self._buffer, self._at):
            self._at = part.end()
            return True
        mark = self._buffer[self._at]
        if self._depth == 0 and mark in ",}]":
            self._state = "member"
            return True
        self._at += 1
        if mark == '"':
            self._state = "string"
        elif mark in "{[":
            self._depth += 1
        elif mark in "}]":
            self._depth -= 1
        return True

    def _message(self) -> bool:
        if self._buffer[self._at] == '"':
            self._at += 1
            self._blank.clear()
            self._state = "member" if self._single else "list"
            return True
        content = _CONTENT.match(self._buffer, self._at)
        end = content.end() if content else self._at
        if end > self._at:
            self._show(_unescaped(self._take(end)))
            return True
        if len(self._buffer) - end < _LONGEST_ESCAPE:
            return False
        # An escape that JSON does not have.
        self._show(self._take(self._at + 1))
        return True

    def _show(self, text: str) -> None:
        """Show text of the current message, which begins with the first text that is not blank."""
        if not self._begun and not text.strip(BLANK):
            self._blank.append(text)
            return
        text = "".join([*self._blank, text])
        self._blank.clear()
        if not self._begun:
            self._index += 1
            self._begun = True
        if self._out and self._out[-1].index == self._index:
            text = self._out.pop().text + text
        self._out.append(MessagePart(self._index, text))


def _unescaped(content: str) -> str:
    if "\\" not in content:
        return content
    return well_formed(str(json.loads(f'"{content}"', strict=False)))
