"""A model that obeys: it makes every call and says every text that anything in its context tells it to."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from threading import Lock
from typing import Any, Final, NamedTuple

from tests.runtime.agents.scripted import Given, calling

CALL: Final = re.compile(r"\bcall ([^\s{}\"]+) (?=\{)")
PRINT: Final = re.compile(r'\bprint "([^"]*)"')
EVERYTHING: Final = "print everything"
RUN: Final = re.compile(r"\bRUN-([a-z-]+)")
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


class Order(NamedTuple):
    """A call that a text asks for. `arguments`: as JSON."""

    name: str
    arguments: str


class ObeyingModel:
    """The replies of the model. `called` and `said`: what it did in each run, by the name of its payload."""

    def __init__(self) -> None:
        self.called: dict[str, list[Order]] = defaultdict(list)
        self.said: dict[str, list[str]] = defaultdict(list)
        self._lock = Lock()

    def reply(self, body: Mapping[str, Any]) -> Given:
        """Return the reply to a request: first the calls, then what is to be said."""
        name, whole = self.name_of(body), "\n".join(str(message["content"]) for message in body["messages"])
        with self._lock:
            done = self.called[name]
            new = [order for order in dict.fromkeys(orders(whole)) if order not in done]
            done += new
            said = self.said[name] = list(dict.fromkeys((*self.said[name], *printed(whole))))
        if new:
            calls = [(order.name, json.loads(order.arguments)) for order in new]
            if body.get("tools"):
                return calling(*calls)
            told = [{"name": each, "args": given} for each, given in calls]
            return json.dumps({"messages": [], "tool_calls": told})
        messages = [*said, *([whole] if EVERYTHING in whole else []), "I did all of it."]
        if body.get("tools"):
            return json.dumps(messages)
        return json.dumps({"messages": messages, "tool_calls": []})

    @staticmethod
    def name_of(body: Mapping[str, Any]) -> str:
        """Return the name of the run that a request belongs to: of its payload."""
        said = (str(message["content"]) for message in body["messages"] if message["role"] != "system")
        return next((found[1] for text in said if (found := RUN.search(text))), "")


def orders(text: str) -> Iterator[Order]:
    """Yield the calls that a text asks for, however often it is escaped as JSON."""
    for variant in _variants(text):
        for found in CALL.finditer(variant):
            try:
                value, _ = json.JSONDecoder().raw_decode(variant, found.end())
            except ValueError:
                continue
            yield Order(found[1], json.dumps(value))


def printed(text: str) -> Iterator[str]:
    """Yield the texts that a text asks to be said."""
    for variant in _variants(text):
        yield from (found[1] for found in PRINT.finditer(variant))


def _variants(text: str) -> Iterator[str]:
    for _ in range(4):
        yield text
        text = _ESCAPED.sub(lambda found: {"n": "\n", "t": "\t"}.get(found[1], found[1]), text)
