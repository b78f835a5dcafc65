"""A workspace reports the same as a compilation of its current files, whatever files it had before."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from random import Random

import pytest

from dslc.diagnostics.diagnostic import Diagnostic
from dslc.source import Source
from dslc.vocabulary import Vocabulary
from dslc.workspace import Workspace
from tests.cases import each_case
from tests.dslc.catalogs import CATALOG

_VOCABULARY = Vocabulary(CATALOG)
_FILES = "xyzuv"
_KINDS = ("memory", "webhook", "agent")
_FOLDERS = ('"data"', '"data/a"', '"./data/a/"', '"/x"', '"."', '"data/agents"')
_ODD = (
    "agent a(x: T) -> R { }", 'agent "b"(x: T) { }', "policy a { b }", "metadata {", "type a = B",
    "memory {}", "agent {}", 'memory "a b" {}', "agnt b {}", 'memry c { path "q" }', "foo a { b }", "agent e",
    "x y z", "b", "}", "[a b", 'webhook w { path "/p }', "agent a { memory b", "memory a\n{\n}",
    'webhook z {\n    path "/p"\n    agent a\n', "# dslc: allow R302", "# dslc: allow R301", "# dslc: allow N207",
)  # fmt: skip


class _Writer:
    """Texts with few names and paths, so that files clash; some are broken."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def text(self, others: Sequence[str | bytes]) -> str | bytes:
        chance = self._random.random()
        if chance < 0.06:
            return self._random.choice((b"\xff", "a\rb"))  # not all of these can be read
        if chance < 0.25 and others:
            return self._random.choice(others)
        blocks = [self._block() for _ in range(self._random.randint(0, 5))]
        return self._random.choice(("", "", "", "\ufeff")) + self._random.choice(("\n", "\n\n", " ", "\r\n")).join(
            blocks
        )

    def edited(self, text: str | bytes) -> str | bytes:
        if isinstance(text, bytes):
            return self.text(())
        at = self._random.randint(0, len(text))
        more = self._random.choice(("", " ", "\n", "{", "}", "a", '"', "#"))
        return text[:at] + more + text[at + self._random.choice((0, 0, 1, 3)) :]

    def _block(self) -> str:
        kind = self._random.choice((*_KINDS, "odd"))
        if kind == "odd":
            return self._random.choice(_ODD)
        name = self._random.choice(("a", "b", "c", "d", "default"))
        settings = {"memory": self._memory, "webhook": self._webhook, "agent": self._agent}[kind]()
        return f"{kind} {name} {{ {' '.join(settings)} }}"

    def _sometimes(self, chance: float, setting: str) -> list[str]:
        return [setting] if self._random.random() < chance else []

    def _memory(self) -> list[str]:
        path = self._sometimes(0.6, f"path {self._random.choice(_FOLDERS)}")
        return [*path, *self._sometimes(0.2, "retention 90"), *self._sometimes(0.1, 'pth "x"')]

    def _webhook(self) -> list[str]:
        needed = [f'path "/{self._random.choice("pqr")}"', 'secret "secret://env/A"']
        uses = self._sometimes(0.7, f"agent {self._random.choice('abcde')}") + self._use_of_memory()
        return [*needed, *uses, *self._sometimes(0.1, "agnt x")]

    def _agent(self) -> list[str]:
        return [*self._use_of_memory(), *self._sometimes(0.1, "max_steps x")]

    def _use_of_memory(self) -> list[str]:
        return self._sometimes(0.5, f"memory {self._random.choice(('a', 'b', 'c', 'default', 'ax'))}")


class _History:
    """Files that are added, changed and removed, in a workspace and in a dictionary."""

    def __init__(self, seed: int, *, by_path: bool) -> None:
        self.random = Random(seed)
        self.by_path = by_path
        self.files: dict[str, str | bytes] = {}
        self.workspace = Workspace(_VOCABULARY)
        self._past: list[str | bytes] = []

    def step(self) -> None:
        """Add, change or remove one file."""
        name, writer = self.random.choice(_FILES), _Writer(self.random)
        if name in self.files and self.random.random() < 0.25:
            self.workspace.drop(name)
            del self.files[name]
            return
        edit = name in self.files and self.random.random() < 0.4
        text = writer.edited(self.files[name]) if edit else writer.text(self._past)
        self._past.append(text)
        self.files[name] = text
        self._put(self.workspace, name)

    def anew(self) -> Workspace:
        """Return a new workspace with only the current files."""
        workspace = Workspace(_VOCABULARY)
        for name in sorted(self.files) if self.by_path else self.files:
            self._put(workspace, name)
        return workspace

    def _put(self, workspace: Workspace, name: str) -> None:
        workspace.put(Source(name, self.files[name]), (name,) if self.by_path else ())


def _said(workspace: Workspace) -> dict[str, list[Diagnostic]]:
    return {name: workspace.diagnostics(name) for name in workspace.names}


def _places(workspace: Workspace) -> list[object]:
    """Return the positions where every name is declared, in order, and where it is used."""
    found: list[object] = []
    for kind in _KINDS:
        found.append((kind, sorted(workspace.declared_names(kind))))
        for name in workspace.declared_names(kind):
            declared = [(each.location.file, each.location.span) for each in workspace.declarations(kind, name)]
            used = sorted((each.file, each.span.start) for each in workspace.uses(kind, name))
            found.append((kind, name, declared, used))
    return sorted(found, key=repr)


@each_case("case", list(product(range(60), (False, True))))
def test_what_is_said_depends_on_the_files_and_not_on_how_they_came_to_be(case: tuple[int, bool]) -> None:
    seed, by_path = case
    history = _History(seed, by_path=by_path)
    for _ in range(history.random.randint(2, 12)):
        history.step()
        if history.random.random() < 0.7:
            anew = history.anew()
            assert _said(history.workspace) == _said(anew)
            assert _places(history.workspace) == _places(anew)


@each_case("case", list(product(range(60, 120), (False, True))))
def test_every_file_of_which_something_else_is_said_is_named_as_changed(case: tuple[int, bool]) -> None:
    seed, by_path = case
    history = _History(seed, by_path=by_path)
    before: dict[str, list[Diagnostic]] = {}
    for _ in range(history.random.randint(2, 12)):
        history.step()
        if history.random.random() < 0.7:
            if history.random.random() < 0.5:
                # Reading diagnostics does not consume the change.
                history.workspace.diagnostics(history.random.choice(_FILES))
            changed, now = history.workspace.take_changed(), _said(history.workspace)
            other = {name for name in {*before, *now} if before.get(name) != now.get(name)}
            assert other <= changed
            before = now


def test_nothing_has_changed_once_it_was_taken() -> None:
    workspace = Workspace(_VOCABULARY)
    workspace.put(Source("x", "agent a {}"))
    assert workspace.take_changed() == {"x"}
    assert workspace.take_changed() == set()


def test_a_file_that_does_not_name_what_changed_is_not_named_as_changed() -> None:
    workspace = Workspace(_VOCABULARY)
    workspace.put(Source("x", "memory m {}\nagent a { memory m }"))
    workspace.put(Source("y", 'memory n { path "n" }\nagent b { memory n }'))
    workspace.take_changed()
    workspace.put(Source("y", 'memory n { path "n" retention 90 }\nagent b { memory n }'))
    assert workspace.take_changed() == {"y"}


def test_a_piece_that_did_not_change_is_not_read_again() -> None:
    workspace = Workspace(_VOCABULARY)
    workspace.put(Source("x", "agent a {}\n\nagent b {}\n"))
    (_, kept) = workspace.checked_file("x").sections
    workspace.put(Source("x", "agent c { max_steps 5 }\n\n# moved\nagent b {}\n"))
    assert workspace.checked_file("x").sections[1] is kept


def test_an_unknown_file_has_nothing_to_be_said_and_cannot_be_dropped() -> None:
    workspace = Workspace(_VOCABULARY)
    assert workspace.diagnostics("x") == []
    with pytest.raises(KeyError):
        workspace.drop("x")
