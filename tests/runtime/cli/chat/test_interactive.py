"""A conversation on a terminal goes on after what cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.cli.chat.conversation import Conversation
from runtime.cli.chat.interactive import talk
from runtime.daemon.process.root import Root


def test_bytes_that_are_no_text_do_not_end_a_conversation(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = iter([UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), EOFError()])

    def read(_prompt: str) -> str:
        raise next(typed)

    monkeypatch.setattr("builtins.input", read)
    talk(Conversation(Root(Path()), "helper", None, "m", "t", None, 0, ()))
    assert "not UTF-8 text" in capsys.readouterr().err
