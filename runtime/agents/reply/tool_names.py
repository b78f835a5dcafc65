"""Tools by the names that models give them."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.models.request import ToolSchema


class ToolNames:
    """The tools of a request. A name that differs only in case or in `-` and `_` counts where it fits one tool."""

    def __init__(self, tools: Sequence[ToolSchema]) -> None:
        self.schemas = {tool.name: tool for tool in tools}
        self._similar: dict[str, list[str]] = {}
        for name in self.schemas:
            self._similar.setdefault(_folded(name), []).append(name)

    def find(self, name: str) -> ToolSchema | None:
        """Return the tool that a name stands for, or None."""
        if name in self.schemas:
            return self.schemas[name]
        similar = self._similar.get(_folded(name), ())
        return self.schemas[similar[0]] if len(similar) == 1 else None


def _folded(name: str) -> str:
    # A backslash is the escape of Markdown: memory\_append.
    return name.strip().replace("\\", "").replace("-", "_").casefold()
