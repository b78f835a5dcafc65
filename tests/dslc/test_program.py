"""The program is frozen and comparable, and contains the blocks."""

from __future__ import annotations

import copy
import pickle

import pytest
from pydantic import ValidationError

from dslc.blocks.agent import Agent
from dslc.blocks.filter import WebhookFilter
from dslc.blocks.memory import Memory
from dslc.blocks.variant import Variant
from dslc.blocks.webhook import Webhook
from dslc.catalog import Catalog, CatalogEntry
from dslc.compiler import analyse
from dslc.diagnostics.diagnostic import is_error
from dslc.program import Program
from dslc.source import Source
from tests.dslc.catalogs import CATALOG

_TEXT = 'webhook w {\n    path "/w"\n    provider custom { header "X" }\n    secret "secret://env/A"\n}\n'


def _program(text: str = _TEXT) -> Program:
    done = analyse([Source("w.symbiont", text)], CATALOG)
    assert not list(filter(is_error, done.diagnostics))
    return done.program


def test_a_program_says_where_each_block_was_declared() -> None:
    assert _program("\n\n" + _TEXT).origins == {("webhook", "w"): "w.symbiont:3"}


def test_programs_are_equal_when_their_definitions_are() -> None:
    assert _program() == _program("# moved\n" + _TEXT.replace("    ", "\t"))
    assert _program() != _program(_TEXT.replace('"X"', '"Y"'))


def test_nothing_in_a_program_can_change() -> None:
    program = _program()
    with pytest.raises(TypeError):
        program.webhooks["x"] = program.webhooks["w"]  # type: ignore[index]
    with pytest.raises(TypeError):
        program.webhooks["w"].provider.options["header"] = "Y"  # type: ignore[index]
    with pytest.raises(ValidationError):
        program.webhooks["w"].path = "/x"
    with pytest.raises(AttributeError):
        program.webhooks = {}  # type: ignore[misc]


def test_a_program_survives_copying_and_pickling() -> None:
    program = _program()
    assert copy.deepcopy(program) == pickle.loads(pickle.dumps(program)) == program
    assert hash(program.webhooks["w"]) == hash(copy.deepcopy(program.webhooks["w"]))


def test_a_block_with_an_error_is_left_out_and_the_others_stay() -> None:
    done = analyse([Source("a", _TEXT + "memory m { retention 90 }"), Source("b", "agent")], CATALOG)
    assert [diagnostic.code for diagnostic in done.diagnostics] == ["T401", "S111"]
    assert (list(done.program.webhooks), list(done.program.memories)) == (["w"], [])


def test_diagnostics_stand_in_source_order() -> None:
    text = 'webhook w {\n    path "/v1"\n    agent nobody\n    colour red\n}\nwebhook w {\n}\n'
    done = analyse([Source("b", text), Source("a", text)], CATALOG)
    places = [(diagnostic.file, diagnostic.span.start) for diagnostic in done.diagnostics]
    assert places == sorted(places, key=lambda place: ("ba".index(place[0]), place[1]))


def test_definitions_have_the_defaults_of_the_page() -> None:
    memory, agent = Memory(name="m"), Agent(name="a")
    webhook = Webhook(name="w", path="/w")
    assert (memory.store.name, memory.path, memory.retention.days) == ("markdown", "data/agents", 90)
    assert (memory.search.vector_weight, memory.search.keyword_weight) == (0.7, 0.3)
    assert (agent.max_steps, agent.enabled, agent.tools, agent.model) == (10, True, (), None)
    assert (webhook.provider, webhook.limits.body, webhook.keep_body) == (Variant(name="custom"), None, True)


@pytest.mark.parametrize("value", ["1", 1, 1.0, True])
def test_a_filter_keeps_the_type_of_what_it_compares_with(value: str | float | bool) -> None:
    assert type(WebhookFilter(json_path="$.a", equals=value).equals) is type(value)


def test_a_filter_compares_with_something() -> None:
    with pytest.raises(ValidationError, match="needs `equals` or `contains`"):
        WebhookFilter(json_path="$.a")


@pytest.mark.parametrize("path", ["w", "//", "/a/../b", "/a?b", "/v1/a", "/mcp", "/a b", ""])
def test_a_webhook_made_by_code_has_a_good_path_too(path: str) -> None:
    with pytest.raises(ValidationError):
        Webhook(name="w", path=path)


def test_the_installed_catalogue_can_be_read() -> None:
    catalog = Catalog.installed()
    assert {"github", "stripe", "slack", "swarmlet", "custom"} <= set(catalog.rows("provider"))
    assert "markdown" in catalog.rows("store")
    assert {"env", "file", "credential", "generated", "vault"} <= set(catalog.rows("secret"))


def test_a_catalogue_with_two_rows_of_one_name_names_them() -> None:
    with pytest.raises(ValueError, match="provider has two rows named x"):
        Catalog({"provider": (CatalogEntry("x"), CatalogEntry("x"))}, {})


def test_a_memory_that_clients_search_by_its_name_is_not_called_unused() -> None:
    text = "".join(
        f"memory {name} {{\n    store {store}\n}}\n" for name, store in (("a", "collection"), ("b", "records"))
    )
    diagnostics = analyse([Source("w.symbiont", text)], Catalog.installed()).diagnostics
    assert [(each.code, each.message) for each in diagnostics] == [("R302", "`memory b` is never used")]
