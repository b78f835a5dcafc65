"""Characters that arrive in two parts."""

from __future__ import annotations

import json

import pytest

from runtime.models.answers.characters import WholeCharacters, decoded, whole_text

TEXT = "é – 😀 a😀 𝄞"


def utf8_parts(text: str, size: int) -> list[bytes]:
    """Return the text in JSON strings that are cut between bytes."""
    data = text.encode()
    return [b'"' + data[at : at + size] + b'"' for at in range(0, len(data), size)]


def escaped_parts(text: str, size: int) -> list[bytes]:
    """Return the text in JSON strings whose characters are escapes, and are cut between those of a pair."""
    units = text.encode("utf-16-be")
    codes = ["\\u" + units[at : at + 2].hex() for at in range(0, len(units), 2)]
    return [('"' + "".join(codes[at : at + size]) + '"').encode() for at in range(0, len(codes), size)]


@pytest.mark.parametrize("cut", [utf8_parts, escaped_parts])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_a_text_is_whole_wherever_it_is_cut(cut: object, size: int) -> None:
    assert callable(cut)
    characters = WholeCharacters()
    parts = [decoded(part) for part in cut(TEXT, size)]
    shown = [characters.feed(part) for part in parts]
    assert "".join(shown) + characters.end() == TEXT
    for each in shown:
        each.encode()
    assert whole_text("".join(parts)) == TEXT


def test_a_half_without_its_other_half_is_replaced() -> None:
    characters = WholeCharacters()
    assert characters.feed(decoded(b'"a\xf0\x9f"')) == "a"
    assert (characters.feed("b"), characters.end()) == ("\ufffdb", "")
    assert (characters.feed(json.loads('"c\\ud83d"')), characters.end()) == ("c", "\ufffd")
    assert whole_text("\udc00 \udcff \ud83d") == "\ufffd \ufffd \ufffd"


def test_what_is_no_json_is_an_error() -> None:
    for text in (b"{", b'{"a": NaN}', b""):
        with pytest.raises(ValueError, match=r"\w"):
            decoded(text)
