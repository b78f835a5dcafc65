"""Core memory does not vanish from a context unseen: the model, the caller and the tools say when it is too long."""

from __future__ import annotations

import json
from pathlib import Path

from runtime.memory.core.block import BlockScope, Origin
from runtime.threads.content import EventPart
from tests.runtime.agents.loop.acting import acting, program
from tests.runtime.agents.scripted import ScriptedModel, says

SMALL = 'tools ["memory_append"] context { max_tokens 1900 reply_tokens 300 }'
FACT = "Ada likes tea and lives in Oslo with her two sisters. "


async def test_an_agent_reads_the_begin_and_the_end_of_a_block_that_is_too_long(tmp_path: Path) -> None:
    with ScriptedModel(says("Hello.")) as model:
        async with acting(tmp_path, program(model, SMALL)) as agent:
            thread = await agent.main()
            value = "Her name is Ada. " + FACT * 200 + "Her birthday is in May."
            await agent.services.blocks.ensure(BlockScope("owner", "helper"), ())
            await agent.services.blocks.write(BlockScope("owner", "helper"), "human", value, Origin("person"))
            assert await agent.ask("Hello.") == "answered"
            assert await agent.ask("Hello again.") == "answered"
            events = [
                part for each in await agent.messages(thread) for part in each.parts if isinstance(part, EventPart)
            ]
    for number in range(2):
        text = model.texts(number)
        assert "Her name is Ada." in text
        assert "Her birthday is in May." in text
        assert f"of {len(value):,} characters of this block: shorten it" in text
    # Once in each run, in its answer.
    assert [each.name for each in events] == ["core_memory_shortened"] * 2
    assert f"of {len(value):,} characters have room" in events[0].text


async def test_an_edit_warns_before_a_block_is_too_long_for_the_context(tmp_path: Path) -> None:
    append = says(memory_append={"label": "human", "content": FACT * 15})
    with ScriptedModel(*[append] * 7, says("Noted.")) as model:
        async with acting(tmp_path, program(model, SMALL)) as agent:
            assert await agent.ask("Note it.") == "answered"
            notes = [json.loads(text)["notes"] for _, _, text in await agent.outputs()]
    assert notes[0] == []
    soon = next(number for number, each in enumerate(notes) if each and "shorten the block soon" in each[0])
    late = next(number for number, each in enumerate(notes) if each and "your context has room for" in each[0])
    assert soon < late


async def test_an_edit_warns_before_a_block_has_reached_its_limit(tmp_path: Path) -> None:
    append = says(memory_append={"label": "notes", "content": "x" * 450})
    with ScriptedModel(append, append, says("Noted.")) as model:
        more = 'tools ["memory_append"] block notes { char_limit 1000 }'
        async with acting(tmp_path, program(model, more)) as agent:
            assert await agent.ask("Note it.") == "answered"
            notes = [json.loads(text)["notes"] for _, _, text in await agent.outputs()]
    assert notes == [[], ["901 of the 1,000 characters that have room are used: shorten the block soon"]]
