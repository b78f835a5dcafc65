"""What turns texts into vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Embedder(ABC):
    """An opened embedding. One event loop uses it."""

    name: str
    """The row's name, as a program writes it: `local`, `ollama` …"""
    model: str
    """Which model, exactly: vectors of different models are never compared."""
    for_tests: bool = False
    """Whether its vectors carry no meaning; said wherever its name is shown."""
    at_once: int = 64
    """Texts that it is given at once where there are many."""

    @property
    @abstractmethod
    def dimension(self) -> int | None:
        """Numbers in a vector; None as long as only the model's first answer can tell."""

    @abstractmethod
    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One float32 row of `dimension`, length 1, for each text, in order; a text longer than the model reads is cut.
        A blank text has the zero vector, which is near to nothing.

        Never blocks the event loop. Raises EmbeddingUnavailable, EmbeddingMismatch.
        """

    async def embed_question(self, text: str) -> NDArray[np.float32]:
        """As `embed` for the one text that somebody waits for: never behind a batch of others, where there is a way."""
        vector: NDArray[np.float32] = (await self.embed([text]))[0]
        return vector

    def renew(self) -> None:  # noqa: B027 - what learns nothing from answers has nothing to forget
        """Forget what earlier answers said of the model, such as its dimension: it may be another one by now."""

    async def close(self) -> None:  # noqa: B027 - what holds nothing open closes by doing nothing
        """Let go of what is open."""
