"""Options of `store records`, for the checker and for the runtime."""

from __future__ import annotations

from pathlib import Path

import pytest

from dslc.blocks.memory import Memory
from dslc.blocks.variant import Variant
from dslc.catalog import Catalog
from dslc.compiler import Compilation, analyse
from dslc.report.program import render
from dslc.source import Source
from dslc.vocabulary import Vocabulary
from runtime.errors import UsageError
from runtime.memory import open_store
from runtime.memory.errors import RefusedItem
from runtime.memory.records.store import RecordsStore
from runtime.memory.secret_options import secrets_of, with_secrets
from runtime.secrets.secret import Secret
from tests.runtime.memory.records.remote import remote
from tests.runtime.memory.texts import fact

GOOD = """\
memory agent-memory {
    store records {
        gates  [governance tdd_proof evidence risk_tier]
        remote contextstream {
            url     "secret://env/CONTEXTSTREAM_URL"
            api_key "secret://env/CONTEXTSTREAM_API_KEY"
            project "neuronx"
        }
    }
}
"""
URL, KEY = "secret://env/CONTEXTSTREAM_URL", "secret://env/CONTEXTSTREAM_API_KEY"


def compiled(text: str) -> Compilation:
    return analyse([Source("main.symbiont", text)], Catalog.installed())


def declared() -> Memory:
    return compiled(GOOD).program.memories["agent-memory"]


def test_a_store_with_gates_and_a_remote_compiles_without_a_word() -> None:
    assert not compiled(GOOD).diagnostics
    remote = declared().store.options["remote"]
    assert isinstance(remote, Variant)
    assert (remote.name, remote.options["project"]) == ("contextstream", "neuronx")


@pytest.mark.parametrize(
    ("wrong", "by", "code", "at"),
    [
        ("tdd_proof", "tdd_prof", "T403", "tdd_prof"),
        ("[governance tdd_proof evidence risk_tier]", "governance", "T401", "governance"),
        ("remote contextstream", "remote contextstrem", "T403", "contextstrem"),
        ("remote contextstream", "remot contextstream", "N202", "remot"),
        ("project", "projct", "N202", "projct"),
        ('project "neuronx"', "", "T404", "remote"),
        ('"neuronx"', '""', "T402", '""'),
        ("secret://env/CONTEXTSTREAM_URL", "secret://evn/URL", "P503", "evn"),
        ('"neuronx"', '"neuronx" timeout 1y', "T402", "1y"),
        ("store records", "store markdown", "N202", "gates"),
    ],
)
def test_a_mistake_is_told_at_its_place(wrong: str, by: str, code: str, at: str) -> None:
    text = GOOD.replace(wrong, by)
    found = [each for each in compiled(text).diagnostics if each.code != "T404" or code == "T404"]
    first = found[0]
    assert first.code == code
    assert text.encode()[first.span.start : first.span.end].decode().startswith(at)


def test_a_secret_written_in_the_file_is_warned_of_and_never_shown() -> None:
    found = compiled(GOOD.replace(KEY, "cs-literal-key"))
    assert [each.code for each in found.diagnostics] == ["P501"]
    assert "cs-literal-key" not in repr(found.program)
    assert "cs-literal-key" not in render(found.program, Vocabulary(Catalog.installed()))
    memory = found.program.memories["agent-memory"]
    assert secrets_of(memory) == (URL, "cs-literal-key")


def test_the_secrets_of_a_remote_are_found_and_put_in_their_place() -> None:
    memory = declared()
    assert secrets_of(memory) == (URL, KEY)
    known = Secret(b"https://example.com", "env CONTEXTSTREAM_URL")
    chosen = with_secrets(memory.store, "store", {URL: known}).options["remote"]
    assert isinstance(chosen, Variant)
    assert chosen.options["url"] is known
    assert chosen.options["api_key"] == KEY
    assert "example.com" not in repr(chosen)


async def test_a_declared_store_is_opened_with_its_gates_and_its_remote(tmp_path: Path) -> None:
    async with remote() as there:
        values = {URL: Secret(there.url.encode(), "env URL"), KEY: Secret(b"k", "env KEY")}
        store = await open_store(declared(), tmp_path, options=with_secrets(declared().store, "store", values).options)
        assert isinstance(store, RecordsStore)
        with pytest.raises(RefusedItem, match="governance"):
            await store.append([fact()])
        given = {"governance": "na:x", "tdd_proof": "na:x", "evidence": "na:x"}
        one = fact(provenance={"risk_tier": "GREEN"})
        await store.append([one], gates=given)
        await store.close()
        assert len(there.calls) == 1


async def test_a_store_whose_secrets_are_not_there_is_opened_and_says_so(tmp_path: Path) -> None:
    store = await open_store(declared(), tmp_path)
    (problem,) = await store.ready()
    assert problem.severity == "warning"
    assert URL in problem.message
    await store.close()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"gates": ("nonsense",)}, "gates"),
        ({"remote": Variant(name="nowhere")}, "nowhere"),
        ({"remote": Variant(name="contextstream", options={"url": URL, "api_key": KEY})}, "project"),
        ({"remote": Variant(name="contextstream", options={"url": URL, "api_key": KEY, "project": "p", "x": 1})}, "x"),
    ],
)
async def test_options_that_are_wrong_are_named(options: dict[str, object], named: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        await open_store(Memory(name="m", store=Variant(name="records", options=options)), tmp_path)
    assert named in caught.value.line()


async def test_an_opened_store_takes_up_what_was_left(tmp_path: Path) -> None:
    memory = Memory(name="m", store=Variant(name="records"))
    store = await open_store(memory, tmp_path)
    await store.append([fact()])
    await store.close()
    index = tmp_path / "data/agents/reviewer/index.json"
    index.unlink()
    again = await open_store(memory, tmp_path)
    assert await again.ready() == ()
    assert index.exists()
    await again.close()


async def test_a_store_that_cannot_be_read_is_opened_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("mine")
    store = await open_store(Memory(name="m", store=Variant(name="records")), tmp_path)
    (problem,) = await store.ready()
    assert problem.severity == "error"
    await store.close()
