"""Messages between the daemon and the worker process of a model."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from runtime.models.request import Reply, Request
from runtime.workers.frames import Frames

MOST_BYTES: Final = 64 * 1024 * 1024
"""Maximum bytes of a message, in both directions."""


class Start(Struct, frozen=True, tag=True, kw_only=True):
    """The first message to a worker: what it loads. `window`: tokens of a request and its reply. `socket`: a path that
    the library listens on, relative to the worker's folder. `parent`: the process id of the daemon."""

    path: str
    window: int
    threads: int
    socket: str
    parent: int


class Ask(Struct, frozen=True, tag=True):
    """Answer a request: any number of `Part`, then `ReplyEnd`, `ReplyCancelled` or `Failed`. Requests are answered in
    order."""

    id: int
    request: Request


class Cancel(Struct, frozen=True, tag=True):
    """Stop answering a request. It ends with `ReplyCancelled`, unless it has ended already."""

    id: int


class Count(Struct, frozen=True, tag=True):
    """Count the tokens of each text. Answered at once, also during a request."""

    id: int
    texts: list[str]


class ModelLoaded(Struct, frozen=True, tag=True):
    """The model is loaded."""


class NotLoaded(Struct, frozen=True, tag=True):
    """The model cannot be loaded; the worker ends."""

    reason: str


class Part(Struct, frozen=True, tag=True):
    """The next part of a reply's text."""

    id: int
    text: str


class ReplyEnd(Struct, frozen=True, tag=True):
    """The whole reply."""

    id: int
    reply: Reply


class ReplyCancelled(Struct, frozen=True, tag=True):
    """The request was cancelled."""

    id: int


class Failed(Struct, frozen=True, tag=True):
    """There is no reply: the request has too many tokens (`window`), the model can never answer it (`refused`), or
    another try may succeed (`failed`)."""

    id: int
    reason: Literal["window", "refused", "failed"]
    message: str


class TokenCounts(Struct, frozen=True, tag=True):
    """The tokens of each text."""

    id: int
    tokens: list[int]


ToWorker = Start | Ask | Cancel | Count
Answer = Part | ReplyEnd | ReplyCancelled | Failed | TokenCounts
"""What belongs to a request. All but `Part` end it."""
FromWorker = ModelLoaded | NotLoaded | Answer

TO_WORKER: Final = Frames[ToWorker](ToWorker, MOST_BYTES)
FROM_WORKER: Final = Frames[FromWorker](FromWorker, MOST_BYTES)
