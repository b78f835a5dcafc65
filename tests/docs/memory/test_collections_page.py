"""The page of collections: its commands run, and it contains every command, option and file ending."""

from __future__ import annotations

import re
from pathlib import Path

import click

from runtime.cli.collection import collection
from runtime.cli.collection.push import push
from runtime.documents import ENDINGS, READERS
from tests.docs.shell import typed
from tests.lanes import LONG
from tests.runtime.daemon.running import running, write_program
from tests.runtime.documents.made import pdf

pytestmark = LONG

PAGE = (Path(__file__).parents[3] / "docs" / "collections.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ (.*\bsymbi (?:push|collection) .*)$", PAGE, re.MULTILINE)
NAMED = {"get", "update", "forget"}
"""Commands with an id, which differs from the one on the page."""


def test_every_example_on_the_page_runs(tmp_path: Path) -> None:
    program = re.findall(r"^```symbiont\n(memory notes \{\n    store collection\n\}\n)```$", PAGE, re.MULTILINE)[0]
    # The page's embedding may be a model: here it is the one for tests, or one with that dimension.
    write_program(tmp_path, program.replace("}", "    embedding hashing {\n        dimension 384\n    }\n}"))
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# Deploy\n\nWe deploy when it is Friday.\n")
    (tmp_path / "README.md").write_text("Read me.\n")
    (tmp_path / "page.html").write_text("<html><body><p>A page.")
    (tmp_path / "handbook.pdf").write_bytes(pdf(["One."], ["Two."]))
    assert len(COMMANDS) > 10
    with running(tmp_path, "program"):
        for command in COMMANDS:
            done = typed(command, tmp_path)
            assert done.returncode == 0, (command, done.stdout, done.stderr)
            assert "Traceback" not in done.stderr


def test_every_command_has_an_example_or_is_explained() -> None:
    names = set(collection.list_commands(click.Context(collection)))
    shown = {match[1] for match in re.finditer(r"symbi collection (\w+)", "\n".join(COMMANDS))}
    assert shown | NAMED == names
    for name in NAMED:
        assert f"`symbi collection {name} ID" in PAGE


def test_every_option_on_the_page_is_one() -> None:
    known = {option for parameter in push.params for option in (*parameter.opts, *parameter.secondary_opts)}
    for name in collection.list_commands(click.Context(collection)):
        command = collection.get_command(click.Context(collection), name)
        assert command is not None
        known |= {option for parameter in command.params for option in parameter.opts}
    told = PAGE[PAGE.index("## Commands") :]
    assert set(re.findall(r"(--[a-z][a-z-]*)", told)) <= known


def test_every_ending_and_bound_is_on_the_page() -> None:
    for ending in ENDINGS:
        assert f"`{ending}`" in PAGE
    for reader in READERS.values():
        assert f"{reader.largest // 1024 // 1024} MiB" in PAGE
