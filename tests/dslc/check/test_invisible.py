"""An invisible character is one mistake wherever it is, and its safe fix restores the program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dslc.compiler import Compilation, analyse
from dslc.editing.fix import fix
from dslc.source import Source
from dslc.syntax.lark_parser import tokens
from tests.dslc.catalogs import CATALOG
from tests.dslc.recovery.mistakes import LAYOUTS, PROGRAM
from tests.lanes import first_of

_EVERY = 7  # so that a layout takes a second or two
_WIDTHLESS = ("\u200b", "\u00ad", "\u2060", "\ufeff")


def _compiled(sources: Sequence[Source]) -> Compilation:
    return analyse(sources, CATALOG, build=False)


def _found(done: Compilation) -> list[str]:
    """Return the diagnostics, except that an agent's model has no effect yet."""
    return [each.code for each in done.diagnostics if each.code != "R303"]


def _outside_of_strings(text: str) -> Iterator[int]:
    strings = [token for token in tokens(text) if token.type in {"STRING", "LONG_STRING"}]
    inside = {at for token in strings for at in range((token.start_pos or 0) + 1, token.end_pos or 0)}
    yield from (at for at in range(1, len(text) + 1) if at not in inside and text[at - 1] != "\r")


@first_of("layout", list(LAYOUTS), 2)
def test_a_character_without_width_is_one_mistake_anywhere_and_its_fix_removes_it(layout: str) -> None:
    text = LAYOUTS[layout](PROGRAM)
    for number, at in enumerate([*_outside_of_strings(text)][::_EVERY]):
        done = _compiled([Source("a", text[:at] + _WIDTHLESS[number % len(_WIDTHLESS)] + text[at:])])
        assert _found(done) == ["S115"], text[at - 10 : at + 10]
        assert fix(done, _compiled).compilation.sources[0].text == text


def test_a_word_with_another_mistake_is_shown_and_corrected_as_a_whole() -> None:
    text = "memory m {\n    store mark\u200bdwon\n}\n"
    done = _compiled([Source("a", text)])
    wrong = next(each for each in done.diagnostics if each.code == "T403")
    assert done.sources[0].data[slice(*wrong.span)].decode() == "mark\u200bdwon"
    fixed = fix(done, _compiled, unsafe=True).compilation
    assert fixed.sources[0].text == "memory m {\n    store markdown\n}\n"
    assert _found(fixed) == []


def test_a_name_is_read_without_what_nobody_sees_in_it() -> None:
    text = 'webhook w { path "/w" secret "secret://env/S" agent re\u200bviewer }\nagent reviewer {}\n'
    assert _found(_compiled([Source("a", text)])) == ["S115"]
