"""What the protocol is served from: an opened root in this process, or one that another process owns."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

Progress = Callable[[str, int, int], None]
"""Is told what is being done, how much of it is done, and how much there is."""


class Answer(NamedTuple):
    """A result twice: the JSON text, and what it says."""

    text: str
    content: Any


class Backend(Protocol):
    """Tools and resources for one caller. In lists everything is as the protocol writes it, in plain JSON."""

    async def tools(self) -> Sequence[Mapping[str, Any]]:
        """The tools that the caller may call. Raises Failed."""

    async def call(self, name: str, arguments: Mapping[str, Any], progress: Progress | None) -> Answer:
        """What a tool answers. Raises Unknown for one that is not among `tools`, and Failed."""

    async def resources(self) -> Sequence[Mapping[str, Any]]:
        """The resources; one whose address has parameters has a `uriTemplate` instead of a `uri`. Raises Failed."""

    async def read(self, uri: str) -> Answer:
        """What a resource says. Raises Failed."""


class Unknown(Exception):  # noqa: N818 - it says what is the case
    """There is no such tool, or not for this caller: the two look the same."""


class Failed(Exception):  # noqa: N818
    """The call failed. `failure`: its code, message, and where known field, hint and example, as JSON."""

    def __init__(self, failure: Mapping[str, Any]) -> None:
        super().__init__(failure.get("message", ""))
        self.failure = failure

    def line(self) -> str:
        """All of it in one line, for a model to read."""
        told = self.failure
        where = f"{told['field']}: " if told.get("field") else ""
        hint = f" ({told['hint']})" if told.get("hint") else ""
        example = told.get("example")
        right = "" if example is None else f". For example: {json.dumps(example, ensure_ascii=False)}"
        return f"{told['code']}: {where}{told['message']}{hint}{right}"
