"""An embedding that offers tokens, for tests: each word is one token, whose vector depends only on the word."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import numpy as np

from runtime.models.calls.call import BACKGROUND, CallOwner
from runtime.search.embedding.embedder import EmbeddedQuestion, EmbeddedTexts, Embedder
from runtime.search.embedding.hashing import HashingEmbedder
from runtime.search.index.index import Index

_WORD = re.compile(r"\w+")


class WordTokens(Embedder):
    """Adds the tokens to another embedding. Its dimension is a multiple of 8, and at most 256."""

    token_bits = "words"

    async def embed_with_tokens(self, texts: Sequence[str]) -> EmbeddedTexts:
        return EmbeddedTexts(
            await self.embed(texts), [b"".join(map(self._bits, _WORD.findall(text))) for text in texts]
        )

    async def embed_question_with_tokens(self, text: str, *, owner: CallOwner = BACKGROUND) -> EmbeddedQuestion:
        found = list(_WORD.finditer(text))
        packed = np.frombuffer(b"".join(self._bits(word.group()) for word in found), np.uint8)
        dimension = self.dimension or 0
        rows = (np.unpackbits(packed).reshape(len(found), dimension) * 2.0 - 1) / np.sqrt(dimension)
        vector = await self.embed_question(text, owner=owner)
        return EmbeddedQuestion(vector, rows.astype(np.float32), [word.span() for word in found])

    def _bits(self, word: str) -> bytes:
        return hashlib.sha256(word.lower().encode()).digest()[: (self.dimension or 0) // 8]


class HashedWords(WordTokens, HashingEmbedder):
    """The hashing embedding with these tokens."""


async def embed_all(index: Index, embedder: Embedder) -> None:
    """Store the vectors, and the token bits if the embedding offers them, of all entries that wait for them."""
    await index.use_model(embedder.model, embedder.dimension, embedder.token_bits)
    while waiting := await index.pending(64):
        made = await embedder.embed_with_tokens([one.text for one in waiting])
        await index.embed(list(zip(waiting, made.vectors, strict=True)), made.tokens)
