"""The interface of embeddings: texts to vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from runtime.models.calls.call import BACKGROUND, CallOwner

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from runtime.models.calls.counted_calls import CallContext


class Embedder(ABC):
    """An opened embedding. One event loop uses it."""

    name: str
    """The row's name in a program: `local`, `ollama` …"""
    model: str
    """The exact model: vectors of different models are never compared."""
    for_tests: bool = False
    """True if its vectors have no meaning; shown wherever its name is."""
    at_once: int = 64
    """Number of texts in one call if there are many."""

    @property
    @abstractmethod
    def dimension(self) -> int | None:
        """Return the numbers in a vector; None before the first answer of the model."""

    @abstractmethod
    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one float32 row of `dimension`, length 1, for each text, in order; a text longer than the model reads
        is cut. A blank text has the zero vector, which is near to nothing.

        Never blocks the event loop. Raises EmbeddingUnavailable, EmbeddingMismatch.
        """

    async def embed_question(self, text: str, *, owner: CallOwner = BACKGROUND) -> NDArray[np.float32]:
        """Embed one text like `embed`, for a search that waits; if possible not behind a batch of other texts.
        `owner`: for whom a service is called."""
        vector: NDArray[np.float32] = (await self.embed([text]))[0]
        return vector

    def renew(self) -> None:  # noqa: B027 - what learns nothing from answers has nothing to forget
        """Forget earlier answers about the model, such as its dimension: it may have been replaced."""

    def count_with(self, context: CallContext) -> None:  # noqa: B027 - one in this process calls no service
        """Limit the calls of its service together with those of its other users, and record them."""

    async def close(self) -> None:  # noqa: B027 - what holds nothing open closes by doing nothing
        """Release resources."""
