"""`embedding local`: a small model that runs in this process, on the processor, without any network."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from dslc.blocks.block import Group
from runtime.search.embedding.embedder import Embedder
from runtime.search.embedding.minilm import model
from runtime.search.embedding.text import is_blank, readable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_AT_ONCE = 32
"""Texts that the thread takes at once: a query waits for no more of them than these."""
_LONGEST = 8 * 1024
"""Characters that the tokenizer is given: more than 256 tokens have, and few enough for the moment that it stops all
other threads (it holds the interpreter's lock)."""

_NICENESS = 10


class LocalOptions(Group):
    """There is nothing to set."""


class _Shared:
    """The model and the one thread that uses it, for every memory of the process."""

    def __init__(self) -> None:
        self.holders = 0
        self._thread: ThreadPoolExecutor | None = None
        self._model: model.MiniLM | None = None

    def thread(self) -> ThreadPoolExecutor:
        """The thread that `embed` is to run in."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="embedding local", initializer=_stand_back)
        return self._thread

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row for each text. Raises EmbeddingMismatch."""
        import numpy as np

        rows = np.zeros((len(texts), model.DIMENSION), dtype=np.float32)
        places = [place for place, text in enumerate(texts) if not is_blank(text)]
        if places:
            if self._model is None:
                self._model = model.MiniLM()
            tokens = [self._model.tokens(readable(texts[place][:_LONGEST])) for place in places]
            rows[places] = self._model.vectors(tokens)
        return rows

    def end(self) -> None:
        """End the thread when it has done what it was given."""
        if self._thread is not None:
            self._thread.shutdown(wait=False)


def _stand_back() -> None:
    """Let whoever answers requests go first. On Linux each thread has a niceness of its own (setpriority(2), "C
    library/kernel differences"); elsewhere that would be the whole process's."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            thread = threading.get_native_id()
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + _NICENESS)


_shared = _Shared()


def _start_anew() -> None:
    """Forget the model: nobody holds it any more, or this is a forked child, which has no thread."""
    global _shared  # noqa: PLW0603 - it is the process's own
    _shared = _Shared()


os.register_at_fork(after_in_child=_start_anew)


class LocalEmbedder(Embedder):
    """all-MiniLM-L6-v2 with int8 weights. The model is loaded by the first `embed`."""

    name = "local"
    model = model.NAME

    def __init__(self) -> None:
        self._shared = _shared
        self._shared.holders += 1
        self._open = True

    @property
    def dimension(self) -> int:
        return model.DIMENSION

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        loop = asyncio.get_running_loop()
        parts = []
        for start in range(0, max(len(texts), 1), _AT_ONCE):
            some = list(texts[start : start + _AT_ONCE])
            parts.append(await loop.run_in_executor(self._shared.thread(), self._shared.embed, some))
        # Not before the thread has done so: it takes a while the first time.
        import numpy as np

        return np.concatenate(parts)

    async def close(self) -> None:
        if self._open:
            self._open = False
            self._shared.holders -= 1
            if self._shared.holders == 0 and self._shared is _shared:
                _shared.end()
                _start_anew()


async def open_local(options: Mapping[str, object]) -> LocalEmbedder:
    """Raises UsageError when a package is absent or the model file is another one."""
    LocalOptions.model_validate(options)
    await asyncio.get_running_loop().run_in_executor(_shared.thread(), model.check)
    return LocalEmbedder()
