"""Resources that a client may read before it calls a tool, under both schemes, by caller."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest
from jsonschema import Draft202012Validator

from dslc.blocks.memory import Memory
from dslc.blocks.variant import Variant
from runtime.errors import NotFound
from runtime.tools.resources import RESOURCES, SCHEMES, path_in
from tests.cases import each_case
from tests.runtime.tools.asking import BOB, OWNER_CALLER, Asked, asking, collection


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Asked]:
    async with asking(tmp_path, collection("notes", chunk_size=300), collection("papers")) as opened:
        await opened("push", text="One", tags=["b", "a"], collection="notes")
        await opened("push", text="Two", tags=["c"], project_id="web shop/ü", collection="papers")
        await opened("push", BOB, text="Three", tags=["d"], project_id="bobs", collection="notes")
        yield opened


async def test_the_types_are_the_three_of_the_design(ask: Asked) -> None:
    assert await ask.read("memory-types") == ["episodic", "semantic", "procedural"]


async def test_projects_and_tags_are_those_that_the_caller_has(ask: Asked) -> None:
    assert await ask.read("projects") == ["default", "web shop/ü"]
    assert await ask.read("projects", BOB) == ["bobs"]
    assert await ask.read("projects", OWNER_CALLER) == ["bobs", "default", "web shop/ü"]
    assert await ask.read("projects/default/tags") == ["a", "b"]
    assert await ask.read(f"projects/{quote('web shop/ü', safe='')}/tags") == ["c"]
    assert await ask.read("projects/bobs/tags") == []
    assert await ask.read("projects/bobs/tags", BOB) == ["d"]
    assert await ask.read("projects/nothing/tags") == []


async def test_health_says_what_makes_vectors_and_whether_the_index_answers(ask: Asked) -> None:
    await ask.texts(query_text="one", collection="notes")
    health = await ask.read("health")
    assert health["status"] == "ok"
    notes, papers = health["memories"]
    assert (notes["memory"], notes["default"], papers["default"]) == ("notes", True, False)
    assert (notes["embedding"]["provider"], notes["embedding"]["dimension"]) == ("hashing", 64)
    assert notes["index"] == {"kind": "embedded", "reachable": True, "dimension": 64, "items": 1, "embedded": 1}
    assert notes["state"] == "ready"


async def test_settings_are_those_in_effect_and_hold_no_secret(tmp_path: Path) -> None:
    key = "sk-" + "a1B2" * 10
    openai = Variant(name="openai", options={"url": "http://127.0.0.1:1/v1", "model": "m", "api_key": key})
    declared = Memory(name="notes", store=Variant(name="collection", options={"chunk_size": 300}), embedding=openai)
    async with asking(tmp_path, declared) as ask:
        settings = await ask.read("settings", OWNER_CALLER)
        (notes,) = settings["memories"]
        assert (notes["chunk_size"], notes["chunk_overlap"]) == (300, 150)
        assert (notes["vector_weight"], notes["keyword_weight"]) == (0.7, 0.3)
        assert (settings["default_project"], settings["largest_text"]) == ("default", 1_048_576)
        assert key not in json.dumps(settings)


@each_case("row", RESOURCES.values())
async def test_what_is_read_fits_its_schema_and_the_row_says_what_it_is(ask: Asked, row: object) -> None:
    readable = next(each for each in RESOURCES.values() if each is row)
    schema = readable.result.model_json_schema(mode="serialization")
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(await ask.read(readable.path_of(project_id="default")))
    assert readable.doc.endswith(".")
    assert readable.title


@each_case("scheme", SCHEMES)
def test_both_schemes_name_the_same(scheme: str) -> None:
    assert path_in(f"{scheme}projects/a%2Fb/tags") == "projects/a%2Fb/tags"


@each_case("uri", ["", "memory-types", "mcp://other/projects", "file:///etc/passwd", "symbiont:/projects"])
def test_an_address_under_no_scheme_of_ours_is_not_there(uri: str) -> None:
    with pytest.raises(NotFound, match="is not the address of a resource") as missing:
        path_in(uri)
    assert "symbiont://" in (missing.value.hint or "")


@each_case("path", ["", "project", "projects/", "projects//tags", "projects/a/b/tags", "health?x=1", "x" * 500])
async def test_a_path_that_is_none_is_answered_with_the_nearest(ask: Asked, path: str) -> None:
    with pytest.raises(NotFound) as missing:
        await ask.read(path)
    assert missing.value.hint
    if path == "project":
        assert "projects" in missing.value.hint


async def test_a_project_that_is_no_text_is_not_there(ask: Asked) -> None:
    with pytest.raises(NotFound, match="not valid UTF-8"):
        await ask.read("projects/%ff/tags")
