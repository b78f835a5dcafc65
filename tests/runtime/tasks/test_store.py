"""Tasks are stored with who made and changed them, and only their user has them."""

from __future__ import annotations

import pytest

from runtime.clock import milliseconds
from runtime.database.connection import Database
from runtime.errors import NotFound, RateLimited
from runtime.identity import users
from runtime.search.entry import ALL_SUBJECTS, WantedSubject
from runtime.tasks import writing
from runtime.tasks.store import TaskStore
from runtime.tasks.task import Actor, BulkRefused, Due, Task, TaskFilter
from runtime.tasks.urgent import UrgentTasks
from runtime.threads.step import Superseded
from tests.clocks import ManualClock

USER = Actor("user")
AGENT = Actor("agent", "assistant", "run", key="call/1")


@pytest.fixture
def store(database: Database, clock: ManualClock) -> TaskStore:
    return TaskStore(database, clock)


async def test_a_task_is_read_as_it_was_created(store: TaskStore, clock: ManualClock) -> None:
    made = await store.create(
        "owner",
        AGENT,
        title=" Call\nAda ",
        description="About é.",
        priority="urgent",
        due=Due(5000, None),
        tags=["b", "a"],
    )
    assert await store.get("owner", made.id) == made
    assert (made.title, made.description, made.tags, made.due) == ("Call Ada", "About é.", ("a", "b"), Due(5000, None))
    assert (made.source, made.created_by_agent, made.origin_run_id) == ("agent", "assistant", "run")
    (change,) = await store.history("owner", made.id)
    assert (change.version, change.source, change.agent, change.run_id) == (1, "agent", "assistant", "run")
    assert {each.field: each.after for each in change.changes} == {
        "title": "Call Ada",
        "description": "About é.",
        "status": "pending",
        "priority": "urgent",
        "due_date": "1970-01-01T00:00:05Z",
        "tags": ["a", "b"],
    }


async def test_each_change_is_in_the_history_with_who_made_it(store: TaskStore) -> None:
    made = await store.create("owner", AGENT, title="Call Ada", tags=["a"])
    changed = await store.update("owner", made.id, {"title": "Call Bob", "tags": ["b"]}, USER)
    assert (changed.source, changed.updated_source, changed.updated_by_agent) == ("agent", "user", None)
    newest, _ = await store.history("owner", made.id)
    assert (newest.version, newest.source) == (2, "user")
    assert [tuple(each) for each in newest.changes] == [("title", "Call Ada", "Call Bob"), ("tags", ["a"], ["b"])]


async def test_a_change_to_the_same_values_is_none(store: TaskStore) -> None:
    made = await store.create("owner", USER, title="Call Ada", tags=["a"])
    assert await store.update("owner", made.id, {"title": "Call Ada", "tags": ["a", "a"]}, AGENT) == made


async def test_the_time_of_completion_is_set_and_emptied_when_it_is_reopened(
    store: TaskStore, clock: ManualClock
) -> None:
    made = await store.create("owner", USER, title="Call Ada")
    done = await store.update("owner", made.id, {"status": "completed"}, USER)
    assert done.completed_at == milliseconds(clock)
    again = await store.update("owner", made.id, {"status": "in_progress"}, USER)
    assert again.completed_at is None
    assert (await store.update("owner", made.id, {"status": "cancelled"}, USER)).completed_at is None


async def test_a_list_has_the_newest_first_with_all_tags_and_the_total(store: TaskStore) -> None:
    made = [
        await store.create("owner", USER, title=f"{number}", tags=["a", *(["b"] if number % 2 else [])])
        for number in range(5)
    ]
    await store.update("owner", made[1].id, {"status": "completed"}, USER)
    page = await store.page("owner", limit=2, offset=1)
    assert ([task.title for task in page.tasks], page.total) == (["3", "2"], 5)
    page = await store.page("owner", TaskFilter(None, ("a", "b")), limit=5)
    assert ([task.title for task in page.tasks], page.total) == (["3", "1"], 2)
    page = await store.page("owner", TaskFilter("completed", ("b",)), limit=5)
    assert ([task.title for task in page.tasks], page.total) == (["1"], 1)
    page = await store.page("owner", TaskFilter("pending"), limit=1)
    assert ([task.title for task in page.tasks], page.total) == (["4"], 4)


async def test_a_task_of_another_user_does_not_exist(database: Database, store: TaskStore, clock: ManualClock) -> None:
    ada = await users.add(database, "ada", milliseconds(clock))
    made = await store.create("owner", USER, title="Call Ada", tags=["a"])
    for call in (
        store.get(ada, made.id),
        store.update(ada, made.id, {"title": "x"}, USER),
        store.delete(ada, made.id, USER),
    ):
        with pytest.raises(NotFound):
            await call
    with pytest.raises(BulkRefused):
        await store.bulk_update(ada, [made.id], USER, status="completed")
    assert (await store.page(ada, limit=5)).total == 0
    assert (await store.page(ada, TaskFilter(None, ("a",)), limit=5)).tasks == []
    assert await store.history(ada, made.id) == []
    assert await store.get("owner", made.id) == made


async def test_for_a_subject_the_tasks_of_others_and_of_none_do_not_exist(
    database: Database, store: TaskStore, clock: ManualClock
) -> None:
    made: dict[str | None, Task] = {}
    for subject in ("tea", "coffee", None):
        for title in ("old", "new"):
            made[subject] = await store.create(
                "owner", USER, title=f"{title} {subject}", tags=["a", "b"], subject=subject, priority="urgent"
            )
    assert made["tea"].subject == "tea"
    tea = USER._replace(subject="tea")
    for subject in ("coffee", None):
        other = made[subject]
        with pytest.raises(NotFound):
            await store.get("owner", other.id, "tea")
        with pytest.raises(NotFound):
            await store.update("owner", other.id, {"title": "x"}, tea)
        with pytest.raises(NotFound):
            await store.delete("owner", other.id, tea)
        with pytest.raises(BulkRefused):
            await store.bulk_update("owner", [made["tea"].id, other.id], tea, status="completed")
        assert await store.get("owner", other.id) == other
    assert await store.get("owner", made["tea"].id, "tea") == made["tea"]
    assert (await store.update("owner", made["tea"].id, {"tags": ["a", "c"]}, tea)).subject == "tea"
    every: list[str | None] = [None, "coffee", "tea"]
    expected: list[tuple[WantedSubject, list[str | None]]] = [("tea", ["tea"]), (None, [None]), (ALL_SUBJECTS, every)]
    for wanted in (TaskFilter(), TaskFilter("pending"), TaskFilter(None, ("a",)), TaskFilter("pending", ("a", "b"))):
        for whose, subjects in expected:
            page = await store.page("owner", wanted._replace(subject=whose), limit=1)
            found = (await store.page("owner", wanted._replace(subject=whose), limit=9)).tasks
            assert list(dict.fromkeys(task.subject for task in found)) == subjects, (wanted, whose)
            assert page.total == len(found) == 2 * len(subjects) - ("b" in wanted.tags and "tea" in subjects)
    for whose, subjects in expected:
        urgent = await UrgentTasks(database, clock).of("owner", whose)
        assert [each.task.subject for each in urgent] == [each for each in subjects[::-1] for _ in "12"]


async def test_a_removed_user_gets_no_task(database: Database, store: TaskStore, clock: ManualClock) -> None:
    ada = await users.add(database, "ada", milliseconds(clock))
    await database.transact(lambda connection: users.remove(connection, ada))
    with pytest.raises(NotFound):
        await store.create(ada, USER, title="Call Ada")


async def test_a_deleted_task_is_gone_with_its_history_and_tags(store: TaskStore) -> None:
    made = await store.create("owner", USER, title="Call Ada", tags=["a"])
    await store.delete("owner", made.id, USER)
    assert (await store.page("owner", limit=5)).total == 0
    assert (await store.page("owner", TaskFilter(None, ("a",)), limit=5)).total == 0
    assert await store.history("owner", made.id) == []
    with pytest.raises(NotFound):
        await store.delete("owner", made.id, USER)


async def test_several_tasks_are_changed_together_or_not_at_all(store: TaskStore) -> None:
    one = await store.create("owner", USER, title="1", tags=["a"])
    two = await store.create("owner", USER, title="2", tags=[f"t{number}" for number in range(20)])
    absent = "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60"
    with pytest.raises(BulkRefused) as refused:
        await store.bulk_update("owner", [one.id, two.id, absent], USER, status="completed", tags_add=["new"])
    assert refused.value.results == {
        one.id: "ok",
        two.id: "it would have 21 tags; at most 20 are allowed",
        absent: "there is no such task",
    }
    assert await store.by_ids("owner", [one.id, two.id]) == [one, two]
    await store.bulk_update("owner", [one.id, two.id], AGENT, status="completed", tags_add=["new"], tags_remove=["t3"])
    changed = await store.by_ids("owner", [one.id, two.id])
    assert [task.status for task in changed] == ["completed", "completed"]
    assert changed[0].tags == ("a", "new")
    assert (await store.page("owner", TaskFilter("completed", ("new",)), limit=5)).total == 2
    assert [task.updated_by_agent for task in changed] == ["assistant", "assistant"]


async def test_a_repeated_call_of_an_agent_happens_once(store: TaskStore) -> None:
    made = await store.create("owner", AGENT, title="Call Ada")
    assert await store.create("owner", AGENT, title="Call Ada") == made
    assert (await store.page("owner", limit=5)).total == 1
    call = AGENT._replace(key="call/" + "2" * 100)
    await store.update("owner", made.id, {"title": "Call Bob"}, call)
    by_person = await store.update("owner", made.id, {"title": "Call Eve"}, USER)
    assert await store.update("owner", made.id, {"title": "Call Bob"}, call) == by_person
    other = await store.create("owner", AGENT._replace(run_id="other"), title="Call Ada")
    assert other.id != made.id


async def test_an_attempt_that_another_one_follows_writes_nothing(store: TaskStore) -> None:
    with pytest.raises(Superseded):
        await store.create("owner", AGENT._replace(attempt=1), title="Call Ada")
    assert (await store.page("owner", limit=5)).total == 0


async def test_secrets_are_redacted(store: TaskStore) -> None:
    secret = "ghp_" + "a1B2" * 9
    made = await store.create("owner", USER, title=f"Rotate {secret}", description=f"It is {secret}")
    assert secret not in f"{made}"
    assert secret not in f"{await store.history('owner', made.id)}"


async def test_the_newest_changes_stay_in_the_history(store: TaskStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "KEPT_CHANGES", 2)
    made = await store.create("owner", USER, title="0")
    for number in range(1, 4):
        await store.update("owner", made.id, {"title": f"{number}"}, USER)
    assert [change.version for change in await store.history("owner", made.id)] == [4, 3]


async def test_creations_are_limited_in_an_hour_and_refused_ones_do_not_count(
    database: Database, clock: ManualClock
) -> None:
    store = TaskStore(database, clock, per_hour=2)
    made = await store.create("owner", AGENT, title="1")
    clock.advance(600)
    await store.create("owner", USER, title="2")
    # A repeated call adds nothing, and a deleted task counts.
    assert await store.create("owner", AGENT, title="1") == made
    await store.delete("owner", made.id, USER)
    for _ in range(3):
        with pytest.raises(RateLimited, match="in 50 minutes") as refused:
            await store.create("owner", USER, title="3")
        assert refused.value.retry_after == 3000
    assert (await store.page("owner", limit=5)).total == 1
    ada = await users.add(database, "ada", milliseconds(clock))
    await store.create(ada, USER, title="1")
    clock.advance(3000)
    await store.create("owner", USER, title="3")
    with pytest.raises(RateLimited, match="in 10 minutes"):
        await store.create("owner", USER, title="4")


async def test_without_a_limit_nothing_is_refused(database: Database, clock: ManualClock) -> None:
    store = TaskStore(database, clock, per_hour=0)
    for number in range(3):
        await store.create("owner", USER, title=f"{number}")
