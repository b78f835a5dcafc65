"""Base class of embeddings over HTTP: batches, and the validation of answers."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from runtime.clock import SYSTEM, Clock
from runtime.errors import Retry
from runtime.models.calls.call import BACKGROUND, CallOwner
from runtime.models.calls.counted_calls import CallContext, CallKind, CountedCalls
from runtime.models.calls.price import PublishedPrice
from runtime.models.calls.service import ServiceAway, Services
from runtime.models.request import Usage
from runtime.outbound.http import CallFailed, HttpCaller
from runtime.outbound.model_service import Refusal
from runtime.search.embedding.embedder import Embedder
from runtime.search.embedding.text import is_blank, readable
from runtime.search.errors import EmbeddingMismatch, EmbeddingUnavailable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LARGEST_ANSWER = 64 * 1024 * 1024
"""Maximum bytes of an answer: 500 vectors of 4096 numbers, each with 25 characters."""
MOST_VALUES = 2_100_000
"""Maximum values of an answer: those of the same."""
QUESTION_SECONDS = 10.0
"""Timeout in seconds for a single text: it is a query, and its search waits."""
AT_ONCE = 8
"""Number of calls of one service at once, one of them for searches."""

_TRIES = 3
_REQUEST_CHARACTERS = 200_000
"""Maximum characters in one request, unless a single text has more. OpenAI takes at most 300,000 tokens a request."""
_SHORTEST = 200
_TOO_LONG = re.compile(r"context|too long|too large|maximum|max_|exceed|tokens", re.IGNORECASE)


class RemoteOptions(NamedTuple):
    """The parameters of calls of the service. `host`: as shown; `url`, `model` and `key`: what it is, the key as its
    hash; `batch`: texts in one call; `characters`: sent of a text at most; `seconds`: limit of a call; `dimension`: the
    declared one."""

    host: str
    url: str
    model: str
    key: Hashable
    batch: int
    characters: int
    seconds: float
    dimension: int | None


class RemoteEmbedder(Embedder):
    """Calls a service for vectors and validates them: as many as texts, of one dimension, of finite numbers."""

    def __init__(self, service: RemoteOptions, *, caller: HttpCaller | None = None, clock: Clock = SYSTEM) -> None:
        self._service = service
        self._caller = caller or HttpCaller(largest_answer=LARGEST_ANSWER, most_values=MOST_VALUES, clock=clock)
        self._dimension = service.dimension
        self.count_with(CallContext(Services(clock), clock=clock))

    @property
    def dimension(self) -> int | None:
        return self._dimension

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return await self._embed(texts, BACKGROUND)

    async def embed_question(self, text: str, *, owner: CallOwner = BACKGROUND) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = (await self._embed([text], owner))[0]
        return vector

    async def _embed(self, texts: Sequence[str], owner: CallOwner) -> NDArray[np.float32]:
        import numpy as np

        sent = {place: readable(text[: self._service.characters]) for place, text in enumerate(texts)}
        sent = {place: text for place, text in sent.items() if not is_blank(text)}
        if texts and not sent and self._dimension is None:
            await self._vectors(["text"], owner)  # Only an answer shows the dimension of the zero vector.
        found: dict[int, NDArray[np.float32]] = {}
        for places in _batches(sent, self._service.batch):
            rows = await self._vectors([sent[place] for place in places], owner)
            found.update(zip(places, rows, strict=True))
        rows = np.zeros((len(texts), self._dimension or 0), dtype=np.float32)
        for place, row in found.items():
            rows[place] = row
        return rows

    def renew(self) -> None:
        self._dimension = self._service.dimension
        self._calls.service.note_answer()

    def count_with(self, context: CallContext) -> None:
        url, model, key = self._service.url, self._service.model, self._service.key
        identity = "embedding", self.name, url, model, key
        service, price = context.services.of(identity, AT_ONCE, impatient=True), PublishedPrice(self.name, url)
        label = f"embedding/{self.name}"
        self._calls = CountedCalls(self.name, model, service, context, price=price, label=label)

    async def close(self) -> None:
        await self._caller.close()

    @abstractmethod
    async def _ask(self, texts: Sequence[str], *, seconds: float) -> tuple[Any, Usage]:
        """Return the service's vectors for `texts`, in order, not validated, and what they took. Raises CallFailed,
        EmbeddingMismatch."""

    @abstractmethod
    def _service_refusal(self, failure: CallFailed) -> Refusal:
        """Convert a permanent HTTP failure to a report with the fix."""

    def _mismatch(self, failure: CallFailed) -> EmbeddingMismatch:
        message, hint, _ = self._service_refusal(failure)
        return EmbeddingMismatch(message, hint=hint)

    async def _post(self, url: str, body: Any, *, headers: Mapping[str, str] | None = None, seconds: float) -> Any:
        return await self._caller.post_json(url, body, headers=headers, timeout_seconds=seconds, tries=1)

    async def _vectors(self, texts: Sequence[str], owner: CallOwner) -> NDArray[np.float32]:
        """Return the validated rows for a batch; a text that is too long for the model is cut until it is not."""
        import numpy as np

        try:
            return await self._answer(texts, owner)
        except CallFailed as failure:
            if not _is_too_long(failure):
                raise self._mismatch(failure) from None
        # Each text is cut by itself: its vector must not depend on the texts that are sent with it.
        return np.concatenate([await self._shortened_vector(text, owner) for text in texts])

    async def _shortened_vector(self, text: str, owner: CallOwner) -> NDArray[np.float32]:
        while True:
            try:
                return await self._answer([text], owner)
            except CallFailed as failure:
                if not _is_too_long(failure) or len(text) <= _SHORTEST:
                    raise self._mismatch(failure) from None
            text = text[: len(text) // 2]

    async def _answer(self, texts: Sequence[str], owner: CallOwner) -> NDArray[np.float32]:
        """Raises CallFailed if a retry makes no sense."""
        seconds, tries, urgent = self._service.seconds, _TRIES, False
        if len(texts) == 1:
            seconds, tries, urgent = min(seconds, QUESTION_SECONDS), 1, True
        kind = CallKind(owner, "embedding")
        try:
            answer = await self._calls.call(
                lambda: self._ask(texts, seconds=seconds), kind, seconds=seconds, tries=tries, urgent=urgent
            )
        except ServiceAway as away:
            unavailable = self._unavailable(away)
        except CallFailed as failure:
            if "unsupported value" in failure.detail:
                raise self._not_finite() from None  # Ollama cannot write NaN as JSON, and answers 500.
            if not failure.passing:
                raise
            unavailable = self._unavailable(failure)
        else:
            return self._unit_rows(answer, len(texts))
        raise unavailable

    def _unavailable(self, failure: Retry) -> EmbeddingUnavailable:
        return EmbeddingUnavailable(f"the embedding {self.name} is unavailable: {failure}", hint=failure.hint)

    def _unit_rows(self, answer: Sequence[Any], count: int) -> NDArray[np.float32]:
        import numpy as np

        if len(answer) != count:
            raise EmbeddingMismatch(
                f"the embedding {self.name} returned {len(answer)} vectors for {count} texts",
                hint=f"check that {self._service.host} supports the whole API",
            )
        dimension = self._common_dimension({len(row) for row in answer})
        with np.errstate(over="ignore"):
            rows = np.array([np.asarray(row, dtype=np.float32) for row in answer], dtype=np.float64)
        if not np.isfinite(rows).all():
            raise self._not_finite()
        self._dimension = dimension
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        # A vector of zeros has no direction and stays as it is.
        rows /= np.where(lengths > 0, lengths, 1.0)
        unit: NDArray[np.float32] = rows.astype(np.float32)
        return unit

    def _common_dimension(self, found: set[int]) -> int:
        declared = self._service.dimension
        known = {self._dimension} if self._dimension is not None else found
        wrong = sorted(found - known) or sorted(found)[1:]
        if wrong:
            wanted = min(known)
            raise EmbeddingMismatch(
                f"the embedding {self.name} returned a vector of {wrong[0]} numbers, not of {wanted}"
                + (" as declared" if declared is not None else " as before"),
                hint=f"write `dimension {wrong[0]}`, or name a model with {wanted}"
                if declared is not None
                else "if its model was changed, run `symbi memory reindex` to embed everything again",
            )
        dimension = min(found)
        if dimension == 0:
            raise EmbeddingMismatch(
                f"the embedding {self.name} returned empty vectors",
                hint=f"check that {self.model} is a model for embeddings",
            )
        return dimension

    def _not_finite(self) -> EmbeddingMismatch:
        return EmbeddingMismatch(
            f"the embedding {self.name} returned numbers that are not finite",
            hint=f"its model {self.model} does not work there: use another one",
        )

    def not_vectors(self) -> EmbeddingMismatch:
        """Return the error for an answer that is not vectors."""
        return EmbeddingMismatch(
            f"the embedding {self.name} got an answer from {self._service.host} that is not vectors",
            hint="check the URL",
        )


def _is_too_long(failure: CallFailed) -> bool:
    """True if the service reports that a text has more than its model reads."""
    return failure.status in {400, 413, 422} and (failure.status == 413 or bool(_TOO_LONG.search(failure.detail)))


def _batches(sent: Mapping[int, str], most: int) -> Iterator[list[int]]:
    """Yield the places of texts in batches that may be sent together."""
    batch: list[int] = []
    characters = 0
    for place, text in sent.items():
        if batch and (len(batch) == most or characters + len(text) > _REQUEST_CHARACTERS):
            yield batch
            batch, characters = [], 0
        batch.append(place)
        characters += len(text)
    if batch:
        yield batch
