"""The work of a check grows linearly with the program, also if its blocks clash or are all misspelt.

The calls of Python and C functions are counted, which are the same on every machine.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from dslc.diagnostics.diagnostic import Diagnostic
from dslc.source import Source
from dslc.syntax.block_heads import BlockHeads
from dslc.vocabulary import Vocabulary
from dslc.workspace import Workspace
from tests.dslc.catalogs import CATALOG
from tests.lanes import first_of

_BLOCKS = 300
_SECRET = 'secret "secret://env/A"'
_PROGRAMS: dict[str, tuple[str, Callable[[int], str]]] = {
    "memories without a path": ("N208", lambda n: f"memory m{n} {{}}"),
    "memories on one path": ("N208", lambda n: f'memory m{n} {{ path "p" }}'),
    "memories in one another": ("N208", lambda n: f'memory m{n} {{ path "{"p" if n % 2 else f"p/{n}"}" }}'),
    "memories below one": ("N208", lambda n: f'memory m{n} {{ path "{f"p/{n}" if n else "p"}" }}'),
    "memories of one name": ("N204", lambda _: "memory m {}"),
    "webhooks on one path": ("N205", lambda n: f'webhook w{n} {{ path "/p" {_SECRET} }}'),
    "kinds misspelt": ("N201", lambda n: f'memroy m{n} {{ path "p{n}" }}'),
    "settings misspelt": ("N202", lambda n: f'memory m{n} {{ path "p{n}" retenton{n} 9d }}'),
    "settings for others": ("N202", lambda n: f'webhook w{n} {{ path "/p{n}" token{n} "x" }}'),
    "choices misspelt": ("T403", lambda n: f'memory m{n} {{ path "p{n}" store markdwn{n} }}'),
    "references to nothing": ("R301", lambda n: f'webhook w{n} {{ path "/p{n}" {_SECRET} agent a{n} }}'),
    "references misspelt": (
        "R301",
        lambda n: f'webhook w{n} {{ path "/p{n}" {_SECRET} agent agent{n} }}\nagent agemt{n} {{}}',
    ),
}  # fmt: skip


def _check(name: str, blocks: int) -> list[Diagnostic]:
    workspace = Workspace(Vocabulary(CATALOG))
    workspace.put(Source("a", "\n".join(_PROGRAMS[name][1](number) for number in range(blocks))))
    return workspace.diagnostics("a")


def _calls(name: str, blocks: int) -> int:
    calls = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        _check(name, blocks)
    finally:
        sys.setprofile(None)
    return calls


@first_of("name", list(_PROGRAMS), 4)
def test_twice_as_many_wrong_blocks_are_twice_the_work(name: str) -> None:
    found = [each for each in _check(name, _BLOCKS) if each.code == _PROGRAMS[name][0]]
    assert len(found) >= _BLOCKS // 3
    assert _calls(name, 2 * _BLOCKS) < 2.5 * _calls(name, _BLOCKS)


def test_a_text_with_lines_like_heads_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searches = 0
    nested_head = BlockHeads.nested_head

    def counted(heads: BlockHeads, start: int, end: int) -> int:
        nonlocal searches
        searches += 1
        return nested_head(heads, start, end)

    monkeypatch.setattr(BlockHeads, "nested_head", counted)
    lines = "memory x {\n" * _BLOCKS
    workspace = Workspace(Vocabulary(CATALOG))
    workspace.put(Source("a", f'agent a {{ instruction """\n{lines}""" }}\n'))
    assert [each.code for each in workspace.diagnostics("a")] == ["R302"]
    assert searches == 2
