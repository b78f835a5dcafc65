"""Records that are sent to a remote: stored here first, sent now or later, each once as far as can be known."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path

import pytest

from runtime.clock import SYSTEM
from runtime.memory.item import Provenance, delivery_uri
from runtime.memory.records.remotes import sync
from runtime.memory.records.store import RecordsStore
from runtime.memory.store_types import Append
from tests.clocks import ManualClock, until
from tests.runtime.memory.records.pieces import (
    events,
    last_write,
    notes,
    only_record,
    read_json,
    record_files,
)
from tests.runtime.memory.records.remote import KEY, remote, sending
from tests.runtime.memory.texts import WHEN, fact, item

SECRET = "ghp" + "_16C7e42F292c6912E7710c838347Ae178B4a"


def status(folder: Path) -> tuple[object, ...]:
    """Return the only record's locations, whether sending was tried, and the result."""
    found = only_record(folder)
    return found["store_location"], found["remote_store_attempted"], found["remote_store_error"]


async def test_a_record_is_sent_with_its_project_key_and_id(tmp_path: Path) -> None:
    async with remote() as there, sending(tmp_path, there) as store:
        (written,) = await store.append([fact("Deploy on Tuesdays", tags=("b", "a"))])
        await store.settle(60)
        (call,) = there.calls
        assert call.headers["Authorization"] == f"Bearer {KEY}"
        assert call.headers["Idempotency-Key"] == written.memory_id
        assert call.body["project"] == "neuronx"
        folder = tmp_path / "reviewer"
        kept = only_record(folder)
        mutable = {"store_location", "remote_store_attempted", "remote_store_error"}
        assert {k: v for k, v in call.body["record"].items() if k not in mutable} == {
            k: v for k, v in kept.items() if k not in mutable
        }
        assert status(folder) == ("local+remote", True, None)
        assert events(folder) == ["memory_store_local", "memory_store_remote"]
        assert last_write(folder)["remote"] == "sent"
        assert notes(folder) == []
        assert await store.verify() == (1, ())
        assert await store.ready() == ()


async def test_without_a_remote_that_is_said_and_is_fine(store: RecordsStore, folder: Path) -> None:
    await store.append([fact()])
    assert status(folder) == ("local", False, "not_configured")
    assert last_write(folder)["remote"] == "not_configured"
    assert not (folder / "outbox").exists()
    assert await store.ready() == ()


async def test_a_write_waits_for_no_answer(tmp_path: Path) -> None:
    answered = asyncio.Event()
    async with remote([answered]) as there, sending(tmp_path, there) as store:
        for number in range(5):
            await store.append([fact(str(number))])
        assert len(record_files(tmp_path / "reviewer")) == 5
        assert {read_json(file)["remote_store_error"] for file in record_files(tmp_path / "reviewer")} == {"pending"}
        answered.set()
        await store.settle(60)
        assert there.summaries == list("01234")


@pytest.mark.parametrize("answer", [503, 429])
async def test_what_may_pass_is_tried_once_more_at_once(answer: int, tmp_path: Path) -> None:
    async with remote([answer]) as there, sending(tmp_path, there) as store:
        await store.append([fact()])
        await store.settle(60)
        assert len(there.calls) == 2
        assert len({call.headers["Idempotency-Key"] for call in there.calls}) == 1
        assert status(tmp_path / "reviewer") == ("local+remote", True, None)


@pytest.mark.parametrize("body", ["no JSON", "[]"])
async def test_whatever_it_says_about_a_record_that_it_took_does_not_matter(body: str, tmp_path: Path) -> None:
    async with remote([201]) as there, sending(tmp_path, there) as store:
        there.body = body
        await store.append([fact()])
        await store.settle(60)
        assert len(there.calls) == 1
        assert status(tmp_path / "reviewer") == ("local+remote", True, None)


@pytest.mark.parametrize("answer", [400, 422])
async def test_a_record_that_it_will_never_take_is_reported_and_not_tried_again(answer: int, tmp_path: Path) -> None:
    async with remote([answer]) as there, sending(tmp_path, there) as store:
        await store.append([fact("Refused")])
        await store.append([fact("Taken")])
        await store.settle(60)
        assert there.summaries == ["Refused", "Taken"]
        folder = tmp_path / "reviewer"
        refused, taken = (read_json(file) for file in record_files(folder))
        assert (refused["store_location"], refused["remote_store_attempted"]) == ("local", True)
        assert str(answer) in refused["remote_store_error"]
        assert taken["remote_store_error"] is None
        assert events(folder).count("memory_store_error") == 1
        assert notes(folder) == []
        assert await store.verify() == (2, ())


@pytest.mark.parametrize("answer", [401, 403, 404, (302, "https://elsewhere.example/")])
async def test_wrong_options_stop_the_sending_until_they_are_changed(
    answer: int | tuple[int, str], tmp_path: Path
) -> None:
    async with remote([answer]) as there, sending(tmp_path, there) as store:
        for number in range(3):
            await store.append([fact(str(number))])
        await store.settle(60)
        store.configure(there.options())
        await store.settle(60)
        assert there.summaries == ["0"]
        folder = tmp_path / "reviewer"
        first = read_json(record_files(folder)[0])
        said = str(answer if isinstance(answer, int) else answer[0])
        assert said in first["remote_store_error"]
        assert first["remote_store_attempted"] is True
        assert len(notes(folder)) == 3
        (problem,) = await store.ready()
        assert problem.severity == "warning"
        assert "3 records wait" in problem.message
        assert said in problem.message
        store.configure(there.options(project="another"))
        await store.settle(60)
        assert there.summaries == ["0", "0", "1", "2"]
        assert notes(folder) == []
        assert await store.ready() == ()


async def test_a_redirect_takes_no_key_anywhere_else(tmp_path: Path) -> None:
    async with remote() as elsewhere, remote([(307, elsewhere.url)]) as there, sending(tmp_path, there) as store:
        await store.append([fact()])
        await store.settle(60)
        assert elsewhere.calls == []
        assert "redirect" in str(only_record(tmp_path / "reviewer")["remote_store_error"])


async def test_one_that_is_too_slow_is_given_up_and_tried_later(tmp_path: Path) -> None:
    slow = timedelta(milliseconds=100)
    clock = ManualClock()
    async with remote([5.0, 5.0]) as there, sending(tmp_path, there, clock, timeout=slow) as store:
        await store.append([fact()])
        await until(lambda: len(there.calls) == 1 and clock.sleepers == 1)
        clock.advance(1)
        await until(lambda: "did not answer" in str(only_record(tmp_path / "reviewer")["remote_store_error"]))
        assert len(there.calls) == 2
        assert notes(tmp_path / "reviewer")


async def test_what_could_not_be_sent_is_sent_later_in_order(tmp_path: Path) -> None:
    clock = ManualClock()
    async with remote() as there:
        await there.down()
        async with sending(tmp_path, there, clock) as store:
            for number in range(3):
                await store.append([fact(str(number), timestamp=WHEN - timedelta(hours=number))])
            await until(lambda: clock.sleepers == 1)
            clock.advance(1)
            folder = tmp_path / "reviewer"
            await until(lambda: len(events(folder)) == 4)
            first = read_json(record_files(folder)[2])
            assert first["summary"] == "0"
            assert "127.0.0.1" in first["remote_store_error"]
            assert "in-the-url" not in first["remote_store_error"]
            assert events(folder).count("memory_store_error") == 1
            await until(lambda: clock.sleepers == 1)
            (problem,) = await store.ready()
            assert (problem.severity, "3 records wait" in problem.message) == ("warning", True)
            await there.up()
            await until(lambda: clock.sleepers == 1)
            clock.advance(sync.LONGEST_PAUSE)
            await until(lambda: not notes(folder))
            assert there.summaries == ["0", "1", "2"]
            assert await store.ready() == ()


async def test_a_remote_that_stays_away_is_asked_ever_more_rarely_and_fills_no_disk(tmp_path: Path) -> None:
    clock = ManualClock()
    async with remote() as there:
        await there.down()
        async with sending(tmp_path, there, clock) as store:
            await store.append([fact()])
            waits: list[float] = []
            for _ in range(24):
                await until(lambda: clock.sleepers == 1)
                began = clock.monotonic()
                while clock.sleepers == 1:
                    clock.advance(0.25)
                    await asyncio.sleep(0)
                waits.append(clock.monotonic() - began)
            assert max(waits) >= sync.LONGEST_PAUSE
            folder = tmp_path / "reviewer"
            assert events(folder) == ["memory_store_error", "memory_store_local"]
            assert len(notes(folder)) == 1


async def test_what_a_closed_store_could_not_send_the_next_one_sends(tmp_path: Path) -> None:
    async with remote() as there:
        await there.down()
        async with sending(tmp_path, there) as store:
            await store.append([fact("Kept", source_uri=delivery_uri("d"))])
        assert len(notes(tmp_path / "reviewer")) == 1
        await there.up()
        async with sending(tmp_path, there) as store:
            assert await store.append([fact("Kept", source_uri=delivery_uri("d"))]) == ()
            await store.settle(60)
        assert there.summaries == ["Kept"]
        assert notes(tmp_path / "reviewer") == []


async def test_a_store_that_is_closed_sends_what_was_not_tried_first(tmp_path: Path) -> None:
    async with remote() as there:
        async with sending(tmp_path, there) as store:
            await store.append([fact()])
        assert len(there.calls) == 1
        assert status(tmp_path / "reviewer")[2] is None


async def test_who_only_reads_sends_nothing_and_waits_for_nothing(tmp_path: Path) -> None:
    async with remote() as there:
        await there.down()
        async with sending(tmp_path, there) as store:
            await store.append([fact()])
        await there.up()
        clock = ManualClock()
        async with sending(tmp_path, there, clock) as store:
            assert len([one async for one in store.scan()]) == 1
            assert store.waiting == 1
        assert there.calls == []
        async with sending(tmp_path, there, clock) as store:
            await until(lambda: clock.sleepers == 1)
            clock.advance(sync.PATIENCE)
            await until(lambda: store.waiting == 0)
        assert len(there.calls) == 1


async def test_what_is_being_sent_when_the_store_is_closed_is_sent_once(tmp_path: Path) -> None:
    async with remote([0.3]) as there:
        async with sending(tmp_path, there) as store:
            await store.append([fact()])
            await until(lambda: len(there.calls) == 1)
        async with sending(tmp_path, there) as store:
            await store.settle(60)
        assert len(there.calls) == 1
        assert status(tmp_path / "reviewer") == ("local+remote", True, None)


async def test_a_record_whose_status_says_that_it_was_sent_is_not_sent_again(tmp_path: Path) -> None:
    async with remote() as there:
        async with sending(tmp_path, there) as store:
            await store.append([fact()])
            await store.settle(60)
        folder = tmp_path / "reviewer"
        (record,) = record_files(folder)
        (folder / "outbox" / f"{1:020d}_{record.name}").write_text("{}")
        async with sending(tmp_path, there) as store:
            await store.settle(60)
        assert len(there.calls) == 1
        assert notes(folder) == []


async def test_two_processes_never_send_the_same(tmp_path: Path) -> None:
    async with remote([0.3]) as there, sending(tmp_path, there) as one:
        await one.append([fact(str(number)) for number in range(5)])
        async with sending(tmp_path, there, ManualClock()) as other:
            await one.settle(20)
            assert other.waiting == 5
        assert sorted(there.summaries) == list("01234")


async def test_a_damaged_record_is_not_sent_and_holds_up_no_other(tmp_path: Path) -> None:
    async with remote() as there:
        await there.down()
        async with sending(tmp_path, there) as store:
            await store.append([fact("Damaged")])
            await store.append([fact("Whole")])
        folder = tmp_path / "reviewer"
        damaged = record_files(folder)[0]
        damaged.write_bytes(damaged.read_bytes().replace(b"Damaged", b"Changed"))
        await there.up()
        async with sending(tmp_path, there) as store:
            await store.settle(60)
        assert there.summaries == ["Whole"]
        assert notes(folder) == []
        assert b"Changed" in damaged.read_bytes()
        told = [read_json(file) for file in (folder / "evidence").glob("*_memory_store_error.json")]
        assert any("damaged" in str(each["error"]) for each in told)


async def test_sending_changes_nothing_that_the_record_says(tmp_path: Path) -> None:
    async with remote() as there, sending(tmp_path, there) as store:
        told: list[Append] = []
        store.subscribe(on_append=told.append)
        (written,) = await store.append([fact()])
        before = only_record(tmp_path / "reviewer")
        await store.settle(60)
        after = only_record(tmp_path / "reviewer")
        assert {k for k in before if before[k] != after[k]} == {
            "store_location", "remote_store_attempted", "remote_store_error",
        }  # fmt: skip
        assert [one async for one in store.scan()] == [written]
        assert [len(append.items) for append in told] == [1, 0]
        assert told[1].before == told[0].part.revision
        assert (told[1].part,) == await store.parts()


async def test_no_secret_reaches_the_remote_or_what_is_said_of_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    about = Provenance(sources=(SECRET,), task=SECRET)
    async with remote([401]) as there, sending(tmp_path, there) as store:
        await store.append(
            [item(f"Title {SECRET}", tags=(SECRET,), source_uri=f"https://u:{SECRET}@example.com", provenance=about)],
            gates={"governance": f"done:{SECRET}"},
        )
        await store.settle(60)
        sent = json.dumps([call.body for call in there.calls])
        assert SECRET not in sent
        assert "[REDACTED:github_token]" in sent
        said = (
            repr([*(await store.ready()), store._sync.remote, store._options])
            + caplog.text
            + "".join(capsys.readouterr())
        )
        files = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
        for secret in (SECRET, KEY, "in-the-url"):
            assert secret not in said
            assert secret.encode() not in files


@pytest.mark.parametrize(
    "options",
    [
        {"url": "secret://env/NOT_THERE"},
        {"api_key": "secret://env/NOT_THERE"},
        {"url": "ftp://example.com"},
        {"url": "nonsense"},
        {"api_key": "line\nbreak"},
    ],
)
async def test_a_remote_that_cannot_be_used_is_off_and_said_and_nothing_is_lost(
    options: dict[str, object], tmp_path: Path
) -> None:
    async with remote() as there, sending(tmp_path, there, SYSTEM, **options) as store:
        await store.append([fact("Kept")])
        await store.settle(1)
        folder = tmp_path / "reviewer"
        assert status(folder) == ("local", False, "pending")
        (problem,) = await store.ready()
        assert problem.severity == "warning"
        assert "contextstream" in problem.message
        assert "line" not in problem.message
        store.configure(there.options())
        await store.settle(60)
        assert there.summaries == ["Kept"]
        assert await store.ready() == ()


async def test_records_that_wait_for_a_remote_that_is_no_longer_declared_are_not_forgotten(tmp_path: Path) -> None:
    async with remote() as there:
        await there.down()
        async with sending(tmp_path, there) as store:
            await store.append([fact("Waits")])
        store = RecordsStore(tmp_path, ManualClock())
        await store.recover()
        await store.append([fact("Goes nowhere")])
        (problem,) = await store.ready()
        assert "1 record waits to be sent, and no remote is declared" in problem.message
        await there.up()
        store.configure(there.options())
        await store.settle(60)
        await store.close()
        assert there.summaries == ["Waits"]


async def test_a_remote_is_a_row_with_options_that_are_documented(tmp_path: Path) -> None:
    from dslc.blocks.setting import settings_of
    from runtime.memory.records.remotes import REMOTES

    for row in REMOTES.values():
        assert row.title
        assert row.doc.endswith(".")
        assert all(setting.doc for setting in settings_of(row.options))
