"""The interface of embeddings: texts to vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from runtime.models.calls.call import BACKGROUND, CallOwner

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from runtime.models.calls.counted_calls import CallContext


class EmbeddedTexts(NamedTuple):
    """`vectors`: as `Embedder.embed` returns them. `tokens`: for each text the signs of the vectors of its tokens, one
    bit for each number and dimension / 8 bytes for each token; empty if it has none. None: the embedding offers none.
    """

    vectors: NDArray[np.float32]
    tokens: Sequence[bytes] | None


class EmbeddedQuestion(NamedTuple):
    """`vector`: of the question, as `Embedder.embed_question` returns it. `tokens`: one float32 row of length 1 for
    each of its tokens; None: the embedding offers none. `places`: the beginning and end of each token in the text."""

    vector: NDArray[np.float32]
    tokens: NDArray[np.float32] | None
    places: Sequence[tuple[int, int]]


class Embedder(ABC):
    """An opened embedding. One event loop uses it."""

    name: str
    """The row's name in a program: `local`, `ollama` …"""
    model: str
    """The exact model: vectors of different models are never compared."""
    for_tests: bool = False
    """True if its vectors have no meaning; shown wherever its name is."""
    token_bits: str | None = None
    """The version of the token bits that it offers, the same as long as the same text has the same ones; None: it
    offers none, and texts are compared by their vectors."""
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

    async def embed_with_tokens(self, texts: Sequence[str]) -> EmbeddedTexts:
        """Embed texts like `embed`, with the bits of their tokens."""
        return EmbeddedTexts(await self.embed(texts), None)

    async def embed_question_with_tokens(self, text: str, *, owner: CallOwner = BACKGROUND) -> EmbeddedQuestion:
        """Embed a text like `embed_question`, with its tokens."""
        return EmbeddedQuestion(await self.embed_question(text, owner=owner), None, ())

    def renew(self) -> None:  # noqa: B027 - what learns nothing from answers has nothing to forget
        """Forget earlier answers about the model, such as its dimension: it may have been replaced."""

    def count_with(self, context: CallContext) -> None:  # noqa: B027 - one in this process calls no service
        """Limit the calls of its service together with those of its other users, and record them."""

    async def close(self) -> None:  # noqa: B027 - what holds nothing open closes by doing nothing
        """Release resources."""
