"""`find_tool`: how a model reaches tools that its context has no room for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from runtime.models.request import ToolSchema

_MOST_MATCHES: Final = 5
_WORD: Final = re.compile(r"[a-z0-9]+")


class ToolFinder:
    """The tools of one run in the order in which the context takes them: the first one stays, then come found ones."""

    def __init__(self, tools: Sequence[ToolSchema]) -> None:
        self.tools = tuple(tools)

    def matching(self, query: str) -> tuple[ToolSchema, ...]:
        """Return the tools that match best, at most five."""
        wanted = set(_words(query))
        scored = [(len(wanted & set(_words(f"{tool.name} {tool.description}"))), tool) for tool in self.tools]
        best = sorted((pair for pair in scored if pair[0]), key=lambda pair: -pair[0])
        return tuple(tool for _, tool in best[:_MOST_MATCHES])

    def promote(self, query: str) -> None:
        """Put the tools that match before the others, so that the next contexts have room for them."""
        first, *others = self.tools
        found = [tool for tool in self.matching(query) if tool is not first]
        names = {tool.name for tool in found}
        self.tools = (first, *found, *(tool for tool in others if tool.name not in names))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
