"""`embedding local`: a small model that runs in this process, on the CPU, without any network."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING

from dslc.blocks.block import GroupModel
from runtime.models.calls.call import BACKGROUND, CallOwner
from runtime.search.embedding.embedder import EmbeddedQuestion, EmbeddedTexts, Embedder
from runtime.search.embedding.minilm import model
from runtime.search.embedding.text import is_blank, original_places, readable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_AT_ONCE = 32
"""Number of texts in a batch: few enough to be cancelled soon, enough to be sorted by length."""
_LONGEST = 8 * 1024
"""Maximum characters for the tokenizer: more than 256 tokens have, but limited, because it holds the interpreter's
lock."""

_NICENESS = 10


class LocalOptions(GroupModel):
    """No options."""


class _SharedModel:
    """The model and its two threads, shared by every memory of the process.

    `questions` has the process's own priority and does short work: `question`, and `tokens` of batches too, which hold
    the interpreter's lock: a thread of low priority must not keep it from others. `batches` has low priority and runs
    `embed`, which computes without that lock. Both may use the model at once.
    """

    def __init__(self) -> None:
        self.holders = 0
        # A thread starts with its first task.
        self.questions = ThreadPoolExecutor(1, thread_name_prefix="embedding local, questions")
        self.batches = ThreadPoolExecutor(1, thread_name_prefix="embedding local", initializer=_lower_priority)

    @cached_property
    def _model(self) -> model.MiniLM:
        """Load the model. Only the thread `questions` calls it, which every text passes first."""
        return model.MiniLM()

    def question(self, text: str) -> EmbeddedQuestion:
        """Embed the text. Raises EmbeddingMismatch."""
        import numpy as np

        if is_blank(text):
            return EmbeddedQuestion(np.zeros(model.DIMENSION, np.float32), None, ())
        text = text[:_LONGEST]
        tokens, found = self._model.placed_tokens(readable(text))
        vector, rows, kept = self._model.embed_question(tokens)
        places = original_places(text, found)
        return EmbeddedQuestion(vector, rows, [places[at] for at in kept])

    def tokens(self, text: str) -> Sequence[int]:
        """Return the tokens of a text; none of a blank one. Raises EmbeddingMismatch."""
        return [] if is_blank(text) else self._model.tokens(readable(text[:_LONGEST]))

    def embed(self, texts: Sequence[Sequence[int]]) -> tuple[NDArray[np.float32], list[bytes]]:
        """Return one row and the bits of the tokens for each text, given as its tokens."""
        import numpy as np

        rows, bits = np.zeros((len(texts), model.DIMENSION), dtype=np.float32), [b""] * len(texts)
        places = [place for place, tokens in enumerate(texts) if tokens]
        if places:
            rows[places], found = self._model.embed([texts[place] for place in places])
            for place, each in zip(places, found, strict=True):
                bits[place] = each
        return rows, bits

    def end(self) -> None:
        """End the threads after their current work, and unload the model."""
        self.questions.submit(self._unload)
        self.questions.shutdown(wait=False)

    def _unload(self) -> None:
        """Unload the model, as the last work of the thread `questions`. Closed embedders may refer to this object for
        long, so the model does not wait for its end."""
        self.batches.shutdown()  # it may be using the model
        self.__dict__.pop("_model", None)
        _return_memory()


def _return_memory() -> None:
    """Return freed memory to the system: glibc keeps most of a model's for later allocations (malloc_trim(3))."""
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(AttributeError):  # other C libraries have no such function
            ctypes.CDLL(None).malloc_trim(0)


def _lower_priority() -> None:
    """Lower this thread's priority below that of requests. On Linux each thread has a niceness of its own
    (setpriority(2), "C library/kernel differences"); elsewhere it would be the whole process's."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            thread = threading.get_native_id()
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + _NICENESS)


_shared = _SharedModel()


def _reset_shared() -> None:
    """Forget the model: it is no longer used, or this is a forked child process, which has no threads."""
    global _shared  # noqa: PLW0603 - it is the process's own
    _shared = _SharedModel()


os.register_at_fork(after_in_child=_reset_shared)


class LocalEmbedder(Embedder):
    """all-MiniLM-L6-v2 with int8 weights. The model is loaded by the first `embed`."""

    name = "local"
    token_bits = model.TOKEN_BITS
    model = model.NAME

    def __init__(self) -> None:
        self._shared = _shared
        self._shared.holders += 1
        self._open = True

    @property
    def dimension(self) -> int:
        return model.DIMENSION

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return (await self.embed_with_tokens(texts)).vectors

    async def embed_with_tokens(self, texts: Sequence[str]) -> EmbeddedTexts:
        loop, shared = asyncio.get_running_loop(), self._shared
        parts, bits = [], list[bytes]()
        for start in range(0, max(len(texts), 1), _AT_ONCE):
            # One by one, so that a query waits for at most one of them.
            some = texts[start : start + _AT_ONCE]
            tokens = [await loop.run_in_executor(shared.questions, shared.tokens, text) for text in some]
            rows, of_tokens = await loop.run_in_executor(shared.batches, shared.embed, tokens)
            parts.append(rows)
            bits += of_tokens
        # After the thread has finished: loading takes a while the first time.
        import numpy as np

        return EmbeddedTexts(np.concatenate(parts), bits)

    async def embed_question(self, text: str, *, owner: CallOwner = BACKGROUND) -> NDArray[np.float32]:
        return (await self.embed_question_with_tokens(text)).vector

    async def embed_question_with_tokens(self, text: str, *, owner: CallOwner = BACKGROUND) -> EmbeddedQuestion:
        return await asyncio.get_running_loop().run_in_executor(self._shared.questions, self._shared.question, text)

    async def close(self) -> None:
        if self._open:
            self._open = False
            self._shared.holders -= 1
            if self._shared.holders == 0 and self._shared is _shared:
                _shared.end()
                _reset_shared()


async def open_local(options: Mapping[str, object]) -> LocalEmbedder:
    """Open the embedding of this row. Raises UsageError if a package is missing or the model file is another one."""
    LocalOptions.model_validate(options)
    await asyncio.get_running_loop().run_in_executor(_shared.batches, model.check)
    return LocalEmbedder()
