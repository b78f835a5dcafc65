"""The archival tools over every store: facts change, calls happen once, and subjects are apart."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import count, pairwise
from typing import Any

import pytest
import pytest_asyncio

from dslc.blocks.memory import Memory
from dslc.blocks.variant import Variant
from runtime.errors import Conflict, NotFound, SymbiontError, UsageError
from runtime.identity.caller import Caller
from runtime.models.calls.call import BACKGROUND, CallOwner
from runtime.search.embedding.hashing import HashingEmbedder
from runtime.tools.context import ActingAgent, Context
from runtime.tools.model.agent_toolset import AgentIdentity, AgentTools
from runtime.tools.toolset import ALL_TOOLS
from tests.cases import each_case
from tests.clocks import ManualClock
from tests.runtime.tools.asking import HASHING, OWNER_CALLER, Asked, asking

STORES = ("markdown", "records", "collection")
AGENT = "reviewer"
_USERS = count()


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module", params=STORES)
def store(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ask(store: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Asked]:
    folder = tmp_path_factory.mktemp(store)
    async with asking(folder, Memory(name="notes", store=Variant(name=store), embedding=HASHING)) as asked:
        yield asked


@pytest_asyncio.fixture(loop_scope="module")
async def ada(ask: Asked) -> Caller:
    """A user of this test alone, whose items no other test sees."""
    return Caller(await ask.app.user(f"ada-{next(_USERS)}"), frozenset({"write"}))


class Agent:
    """An agent in a run, with the tools on its memory."""

    def __init__(self, ask: Asked, caller: Caller, subject: str | None = None, run: str | None = None) -> None:
        identity = AgentIdentity(AGENT, subject)
        self.tools = AgentTools().of(["archival_*", "memory_*"], caller, identity)
        self.run = f"{run or subject} of {caller.user_id}"
        acting = ActingAgent(AGENT, self.run, "thread", subject=subject, attempt=1)
        self.context: Context = replace(ask.app.context(caller), acting=acting)
        assert isinstance(ask.app.clock, ManualClock)
        self._clock = ask.app.clock
        self._calls = 0

    async def call(self, name: str, key: str | None = None, /, **given: Any) -> Any:
        """Call a tool as a step of its own, or as the step `key`."""
        self._calls += 1
        self._clock.advance(1)
        context = self.context.of_call(str(self._calls) if key is None else key)
        return (await self.tools.call(name, context, given)).model_dump(mode="json")

    async def found(self, query: str = "lives", **given: Any) -> list[str]:
        """Return the texts that a search finds, in alphabetical order."""
        hits = (await self.call("archival_search", query=query, limit=100, **given))["hits"]
        return sorted(hit["content"] for hit in hits)


async def test_what_a_delivery_led_to_says_so_in_searches_and_exports(ask: Asked, ada: Caller) -> None:
    agent, other = Agent(ask, ada), Agent(ask, ada, run="another run")
    assert agent.context.acting is not None
    agent.context = replace(agent.context, acting=replace(agent.context.acting, webhook="hooks"))
    await agent.call("archival_insert", content="Mallory lives in Lyon")
    await agent.call("memory_write", text="Eve lives in Lyon", author="the owner")
    await other.call("archival_insert", content="Ada lives in Lyon")
    hits = (await other.call("archival_search", query="lives", limit=10))["hits"]
    marked = "from a delivery of hooks"
    assert {hit["content"]: hit["origin"] for hit in hits} == {
        "Mallory lives in Lyon": marked,
        "Eve lives in Lyon": marked,
        "Ada lives in Lyon": None,
    }
    exported = (await ask("memory_export", ada, agent=AGENT))["items"]
    assert sorted(str(item["provenance"]["author"]) for item in exported) == ["None", marked, marked]


async def test_an_agent_finds_what_it_stored_with_its_tags(ask: Asked, ada: Caller) -> None:
    agent = Agent(ask, ada)
    done = await agent.call("archival_insert", content="Ada lives in Lyon", tags=[" Home ", "home", "CITY"])
    assert (done["outcome"], done["tags"]) == ("stored", ["city", "home"])
    await agent.call("archival_insert", content="Bob lives in Rome", tags=["other"])
    assert await agent.found() == ["Ada lives in Lyon", "Bob lives in Rome"]
    assert await agent.found(tags=["HOME", "none"]) == ["Ada lives in Lyon"]
    assert await agent.found(tags=["none"]) == []
    (item,) = [each for each in (await ask("memory_list", ada, agent=AGENT))["items"] if "Ada" in each["text"]]
    assert item["memory_type"] == "semantic"
    assert (item["provenance"]["run_id"], item["provenance"]["said_by"]) == (agent.run, "agent")
    assert (item["user_id"], item["subject"], item["valid_until"]) == (ada.user_id, None, None)


async def test_a_search_is_counted_for_the_run_that_made_it(
    ask: Asked, ada: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    owners: list[CallOwner] = []
    embed = HashingEmbedder.embed_question

    async def counted(embedder: HashingEmbedder, text: str, *, owner: CallOwner = BACKGROUND) -> Any:
        owners.append(owner)
        return await embed(embedder, text, owner=owner)

    monkeypatch.setattr(HashingEmbedder, "embed_question", counted)
    agent = Agent(ask, ada)
    await agent.call("archival_insert", content="Ada lives in Lyon")
    await agent.found()
    assert owners == [CallOwner(ada.user_id, AGENT, "thread", agent.run)]


async def test_a_call_that_is_made_again_writes_nothing_twice(ask: Asked, ada: Caller) -> None:
    agent = Agent(ask, ada)
    first = await agent.call("archival_insert", "1", content="Ada lives in Lyon")
    assert await agent.call("archival_insert", "1", content="Ada lives in Lyon") == first
    newer = await agent.call("archival_replace", "2", memory_id=first["memory_id"], content="Ada lives in Oslo")
    assert newer["replaces"] == first["memory_id"]
    again = await agent.call("archival_replace", "2", memory_id=first["memory_id"], content="Ada lives in Oslo")
    assert again == newer
    assert await agent.call("archival_insert", "1", content="Ada lives in Lyon") == first
    assert len((await ask("memory_list", ada, agent=AGENT))["items"]) == 2


async def test_another_run_may_write_what_one_wrote(ask: Asked, ada: Caller, store: str) -> None:
    await Agent(ask, ada, None, "r1").call("archival_insert", "1", content="Ada lives in Lyon")
    done = await Agent(ask, ada, None, "r2").call("archival_insert", "1", content="Ada lives in Lyon")
    # Records are written as they come; the others have each fact once.
    assert done["outcome"] == ("stored" if store == "records" else "there")


async def test_a_search_finds_the_newest_of_a_chain_and_a_list_says_until_when_the_others_held(
    ask: Asked, ada: Caller
) -> None:
    agent = Agent(ask, ada)
    texts = ["Ada lives in Lyon", "Ada lives in Oslo", "Ada lives in Lyon", "Ada lives in Rome"]
    chain = [await agent.call("archival_insert", content=texts[0], tags=["home"])]
    for text in texts[1:]:
        older = chain[-1]["memory_id"]
        chain.append(await agent.call("archival_replace", memory_id=older, content=text))
        assert await agent.found() == [text]
    assert all(each["tags"] == ["home"] for each in chain)
    listed = (await ask("memory_list", ada, agent=AGENT))["items"]
    assert {each["memory_id"]: each["replaced_by"] for each in listed} == {
        each["memory_id"]: newer and newer["memory_id"] for each, newer in zip(chain, [*chain[1:], None], strict=True)
    }
    for text, (each, newer) in zip(texts, pairwise(chain), strict=False):
        shown = (await ask("memory_show", ada, memory_id=each["memory_id"]))["item"]
        assert shown["text"] == text
        assert "content" not in each
        assert shown["valid_until"] == newer["timestamp"]
        assert shown["replaced_by"] == newer["memory_id"]


async def test_what_is_replaced_cannot_be_replaced_again_and_the_newest_is_named(ask: Asked, ada: Caller) -> None:
    agent = Agent(ask, ada)
    first = await agent.call("archival_insert", content="Ada lives in Lyon")
    second = await agent.call("archival_replace", memory_id=first["memory_id"], content="Ada lives in Oslo")
    third = await agent.call("archival_replace", memory_id=second["memory_id"], content="Ada lives in Rome")
    with pytest.raises(Conflict, match=third["memory_id"]) as refused:
        await agent.call("archival_replace", memory_id=first["memory_id"], content="Ada lives in Bern")
    assert "Ada lives in Rome" in str(refused.value)
    assert await agent.found() == ["Ada lives in Rome"]


async def test_a_fact_that_becomes_true_again_is_stored_and_found_again(ask: Asked, ada: Caller) -> None:
    agent = Agent(ask, ada)
    first = await agent.call("archival_insert", content="Ada lives in Lyon")
    await agent.call("archival_replace", memory_id=first["memory_id"], content="Ada moved away")
    again = await agent.call("archival_insert", content="Ada lives in Lyon")
    assert again["outcome"] == "stored"
    assert again["memory_id"] != first["memory_id"]
    assert await agent.found() == ["Ada lives in Lyon"]


async def test_only_ones_own_items_can_be_replaced(ask: Asked, ada: Caller) -> None:
    eve = Caller(await ask.app.user("eve"), frozenset({"write"}))
    first = await Agent(ask, ada).call("archival_insert", content="Ada lives in Lyon")
    for other in (Agent(ask, eve), Agent(ask, ada, "someone"), Agent(ask, replace(eve, scopes=frozenset({"admin"})))):
        with pytest.raises(NotFound):
            await other.call("archival_replace", memory_id=first["memory_id"], content="Ada lives in Oslo")
        assert await other.found() == []
    with pytest.raises(NotFound):
        await ask("archival_replace", ada, agent="other", memory_id=first["memory_id"], content="Ada lives in Oslo")


async def test_a_client_names_the_agent_and_is_told_from_it(ask: Asked, ada: Caller) -> None:
    done = await ask("archival_insert", ada, agent=AGENT, content="Ada lives in Lyon")
    newer = await ask("archival_replace", ada, agent=AGENT, memory_id=done["memory_id"], content="Ada lives in Oslo")
    hits = (await ask("archival_search", ada, agent=AGENT, query="lives"))["hits"]
    assert [hit["memory_id"] for hit in hits] == [newer["memory_id"]]
    shown = (await ask("memory_show", ada, memory_id=newer["memory_id"]))["item"]
    assert (shown["provenance"]["said_by"], shown["provenance"]["run_id"]) == ("tool", None)


async def test_each_subject_has_its_own_items_and_people_see_all(ask: Asked, ada: Caller) -> None:
    agents = {subject: Agent(ask, ada, subject) for subject in ("one", "two", None)}
    for subject, agent in agents.items():
        await agent.call("archival_insert", content="The customer lives abroad", tags=[str(subject)])
    for subject, agent in agents.items():
        hits = (await agent.call("archival_search", query="customer lives"))["hits"]
        assert [hit["tags"] for hit in hits] == [[str(subject).lower()]]
        found = (await agent.call("memory_search", query="customer lives"))["hits"]
        assert [hit["item"]["subject"] for hit in found] == [subject]
        assert [each["subject"] for each in (await agent.call("memory_list"))["items"]] == [subject]
        assert [each["subject"] for each in (await agent.call("memory_export"))["items"]] == [subject]
    listed = (await ask("memory_list", ada, agent=AGENT))["items"]
    assert {each["subject"] for each in listed} == {"one", "two", None}
    only = (await ask("memory_list", ada, agent=AGENT, subject="two"))["items"]
    assert [each["subject"] for each in only] == ["two"]
    assert len((await ask("memory_search", ada, agent=AGENT, query="customer"))["hits"]) == 3
    for each in listed:
        for subject, agent in agents.items():
            if subject != each["subject"]:
                with pytest.raises(NotFound):
                    await agent.call("memory_show", memory_id=each["memory_id"])


async def test_a_subject_that_looks_like_a_secret_is_not_stored_and_not_confused(ask: Asked, ada: Caller) -> None:
    secret = "ghp" + "_16C7e42F292c6912E7710c838347Ae178B4"
    for last in "ab":
        await Agent(ask, ada, secret + last, last).call("archival_insert", content=f"The customer {last} lives abroad")
    for last in "ab":
        assert await Agent(ask, ada, secret + last).found() == [f"The customer {last} lives abroad"]
    assert secret not in repr(await ask("memory_list", ada, agent=AGENT))


OTHERS: dict[str, dict[str, Any]] = {
    "memory_stats": {},
    "memory_purge": {"dry_run": True},
    "memory_inspect": {},
    "memory_move": {"source": "notes", "target": "other"},
    "metrics": {},
    "get-collections": {},
}


@each_case("tool", OTHERS)
async def test_tools_on_the_items_of_all_subjects_refuse_an_agent_that_is_bound_to_one(ask: Asked, tool: str) -> None:
    agent = Agent(ask, OWNER_CALLER, "one")
    with pytest.raises(UsageError, match=r"one subject|memory files"):
        await ALL_TOOLS.bind(agent=AGENT).call(tool, agent.context, OTHERS[tool])


async def test_tools_that_change_items_do_not_reach_another_subjects(ask: Asked, ada: Caller, store: str) -> None:
    others = await Agent(ask, ada, "two").call("archival_insert", content="The customer lives abroad")
    own = Agent(ask, ada, "one")
    given = {
        "memory_edit": {"text": "x"},
        "memory_forget": {},
        "get": {},
        "update": {"text": "x"},
        "forget": {},
    }
    for tool, more in given.items():
        with pytest.raises(SymbiontError, match=r"no item|no collection has"):
            await ALL_TOOLS.call(tool, own.context, {"memory_id": others["memory_id"], **more})
    assert await Agent(ask, ada, "two").found() == ["The customer lives abroad"]
    if store == "collection":
        for subject in ("one", "two"):
            agent = Agent(ask, ada, subject)
            pushed = await ALL_TOOLS.call(
                "push", agent.context, {"text": "A customer called", "memory_type": "episodic"}
            )
            assert pushed.model_dump()["inserted"] == 1
            found = (await ALL_TOOLS.call("search", agent.context, {"query_text": "customer called"})).model_dump()
            assert [hit["text"] for hit in found["hits"]] == ["A customer called"]


async def test_what_an_agent_writes_and_imports_belongs_to_its_subject(ask: Asked, ada: Caller) -> None:
    agent = Agent(ask, ada, "one")
    await ALL_TOOLS.call("memory_write", agent.context, {"agent": AGENT, "text": "It lives", "subject": "two"})
    line = {
        "agent_id": AGENT, "memory_type": "semantic", "timestamp": "2026-01-01T00:00:00Z", "text": "It also lives",
        "subject": "two",
    }  # fmt: skip
    await ALL_TOOLS.call("memory_import", agent.context, {"items": [line]})
    assert await agent.found() == ["It also lives", "It lives"]
    assert await Agent(ask, ada, "two").found() == []


@each_case(
    ("tool", "wrong"),
    [
        ("archival_insert", {"content": " \n"}),
        ("archival_insert", {"content": "x", "tags": [" "]}),
        ("archival_search", {"query": ""}),
        ("archival_search", {"query": "x", "limit": 0}),
        ("archival_replace", {"memory_id": "0195", "content": "x"}),
    ],
)
async def test_wrong_parameters_are_named(ask: Asked, ada: Caller, tool: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=rf"{tool}: (content|tags|query|limit|memory_id)"):
        await Agent(ask, ada).call(tool, **wrong)
