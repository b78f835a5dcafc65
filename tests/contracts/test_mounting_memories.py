"""`dslc check` succeeds if and only if the daemon opens the memory as declared: valid and invalid options of every
store, index, embedding, model and remote, and settings of the block itself."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import ValidationError

from dslc.blocks.memory import Memory
from dslc.blocks.variant import Variant
from dslc.catalog import CatalogEntry
from dslc.compiler import analyse
from dslc.diagnostics.diagnostic import is_error
from dslc.program import Program
from dslc.source import Source
from dslc.syntax.quoting import quoted
from runtime.clock import SYSTEM
from runtime.crypto import MasterKey
from runtime.daemon.opening.memories import MemoryOpener, ResourcePools
from runtime.daemon.opening.resource_pool import Lease
from runtime.daemon.opening.secrets import Resolution, resolve
from runtime.daemon.process.embedding_environment import Environment
from runtime.database.connection import Database
from runtime.errors import SymbiontError
from runtime.memory.open_memory import OpenMemory
from runtime.secrets.backend import SecretContext
from tests.contracts.options import BESIDE, Given, option_sets, settings
from tests.contracts.test_mounting import CATALOG, EXAMPLES, green
from tests.databases import migrated
from tests.lanes import LONG, repeated

# A key, an address and a database, for every use of a secret; opening a memory connects to none of them.
_SECRETS = ("a-key", "https://records.example.org/v1", "postgresql://user:password@127.0.0.1:1/search")
_PATHS = (
    "data", "a/b", "./a", "a/../b", "a b", "~", "~/x", "a~", ".symbi", "a/.symbi/b", "a/.symbi-b", ".", "", "ü",
)  # fmt: skip


_ABSENT = re.compile("there is no model file|is not installed or has none|GGUF files")
"""What a check cannot know: whether a model's file exists here."""


class Written(NamedTuple):
    """A memory: its text, and the block that it declares."""

    text: str
    block: Mapping[str, Any]


def _choice(name: str, given: list[Given]) -> tuple[str, Variant]:
    options = " ".join(each.written for each in given)
    return f"{name} {{ {options} }}", Variant(name=name, options={each.name: each.value for each in given})


def _written(family: str, name: str, given: list[Given]) -> Written:
    """Return a memory with that row and those options."""
    text, value = _choice(name, given)
    if family == "model":
        return Written(f"memory m {{ summarize {{ model {text} }} }}\n", {"summarize": {"model": value}})
    if family == "remote":
        store = Variant(name="records", options={"remote": value})
        return Written(f"memory m {{ store records {{ remote {text} }} }}\n", {"store": store})
    return Written(f"memory m {{ {family} {text} }}\n", {family: value})


def _rows() -> Iterator[tuple[str, CatalogEntry]]:
    for family in ("store", "remote", "index", "embedding", "model"):
        for row in CATALOG.rows(family).values():
            yield family, row


# The models of one layer have the same options but for their keys.
_ROWS = [
    pytest.param(family, row, marks=LONG if family == "model" and row.name not in ("local", "openai") else ())
    for family, row in _rows()
]


class Opening(NamedTuple):
    """What opens memories, and what the last ones hold."""

    opener: MemoryOpener
    held: Lease

    async def opens(self, block: Mapping[str, Any]) -> bool:
        """Return whether the daemon opens it as declared with any of the secrets, which a check does not know."""
        try:
            memory = Memory.model_validate({"name": "m", **block})
        except ValidationError:
            return False
        for secret in _SECRETS:
            try:
                opened, resolution = await self.opened(memory, {"OPTION": secret, "OPENAI_API_KEY": secret})
            except SymbiontError:
                continue
            finally:
                await self.held.give_back()
            if not [line for line in opened.problems if not _ABSENT.search(line)]:
                return True
            if not resolution.values:
                return False
        return False

    async def opened(self, block: Memory, environ: Mapping[str, str]) -> tuple[OpenMemory, Resolution]:
        """Open a memory as a reload does, with the secrets of this environment. Raises SymbiontError."""
        context = self.opener.context
        context = SecretContext(environ, self.opener.root, context.database, context.key, SYSTEM)
        # Without a folder the index is in memory: making its file takes most of the time of an opening.
        searched = block.index is not None or block.embedding is not None
        opener = replace(self.opener, context=context, index_folder=self.opener.index_folder if searched else None)
        program, whole = Program(memories={block.name: block}), [opener.environment.with_defaults(block)]
        services = opener.models.services(program, whole)
        resolution = await resolve(program, whole, Resolution(), context, services=services)
        return await opener.memory(block, program, resolution, self.held), resolution


@pytest.fixture
async def opening(tmp_path: Path) -> AsyncIterator[Opening]:
    database = await Database.open(migrated(tmp_path / "symbiont.db"), MasterKey(bytes(32)))
    context = SecretContext({}, tmp_path, database, database.keys, SYSTEM)
    # The default embedding is not tested here, and its model loads slowly.
    environment = Environment(embedding="none")
    opener = MemoryOpener(tmp_path / "root", tmp_path / "index", context, ResourcePools(), environment)
    opening = Opening(opener, Lease())
    yield opening
    await opening.held.give_back()
    await database.close()


@pytest.mark.parametrize(("family", "row"), _ROWS, ids=lambda value: getattr(value, "name", value))
@repeated("beside", 1, BESIDE)
async def test_what_a_check_calls_right_of_its_options_is_opened_and_nothing_else(
    family: str, row: CatalogEntry, beside: int, opening: Opening
) -> None:
    programs = {each.text: each for each in (_written(family, row.name, given) for given in option_sets(row, beside))}
    programs |= {each.text: each for each in [_written(family, f"{row.name}x", [])]}
    programs |= {each.text: each for each in [_written(family, row.name, [Given("nonsense", "nonsense 1", 1)])]}
    verdicts = {text: (green(text), await opening.opens(each.block)) for text, each in programs.items()}
    assert [text for text, (checked, taken) in verdicts.items() if checked != taken] == []
    assert (True, True) in verdicts.values()
    assert (False, False) in verdicts.values()


@pytest.mark.parametrize("store", list(CATALOG.rows("store")))
async def test_what_a_check_calls_right_of_a_block_is_opened_and_nothing_else(store: str, opening: Opening) -> None:
    verdicts = {}
    paths = (Given("path", f"path {quoted(path)}", path) for path in _PATHS)
    for given in [*paths, *settings(CATALOG.kinds["memory"])]:
        text = f"memory m {{ store {store} {given.written} }}\n"
        verdicts[text] = (green(text), await opening.opens({"store": Variant(name=store), given.name: given.value}))
    assert [text for text, (checked, taken) in verdicts.items() if checked != taken] == []
    assert (True, True) in verdicts.values()
    assert (False, False) in verdicts.values()


async def test_every_memory_of_the_examples_is_opened(opening: Opening) -> None:
    done = analyse([Source(file.name, file.read_bytes()) for file in sorted(EXAMPLES.glob("*.symbiont"))], CATALOG)
    assert not any(map(is_error, done.diagnostics))
    assert done.program.memories
    opened = {name: (await opening.opened(block, {}))[0] for name, block in done.program.memories.items()}
    assert {name: memory.problems for name, memory in opened.items() if memory.problems} == {}
