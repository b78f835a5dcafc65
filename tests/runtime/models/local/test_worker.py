"""The worker process: its start and end, crashes, cancelled requests, and what it inherits."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from runtime.models.local import process
from runtime.models.local.chat import cleaned_body
from runtime.models.local.model import LocalModel, open_local
from runtime.models.local.options import LocalOptions
from runtime.models.model import ModelUnavailable, NoSuchModel
from runtime.models.request import Message, Reply, Request
from runtime.workers.process import _INHERITED
from tests.clocks import until
from tests.lanes import LONG
from tests.runtime.models.local.gguf import folders, is_worker, small_model, workers

pytestmark = LONG

ROOT = Path(__file__).parents[4]
HELLO = Request(messages=(Message("user", "Hello."),), max_tokens=2)
STORY = Request(messages=(Message("user", "Write a very long story."),), max_tokens=4000)
BOOK = Request(messages=(Message("user", " ".join(f"word{number}" for number in range(700))),), max_tokens=1)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files of its own."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


@pytest.fixture
async def opened(place: Path) -> AsyncIterator[Callable[..., LocalModel]]:
    """Return a function that opens the small model; at the end nothing of it is left."""
    small_model()
    read = await open_local({})
    found: list[LocalModel] = []

    def make(**options: object) -> LocalModel:
        found.append(LocalModel(read._file, LocalOptions.model_validate({"threads": 1, **options})))
        return found[-1]

    yield make
    for model in found:
        await model.close()
    assert workers() == []
    assert folders(place) == []


async def answered(model: LocalModel) -> int:
    """Get an answer, and return the process id of the worker that gave it."""
    reply = await model.reply(HELLO)
    assert reply.text
    (worker,) = workers()
    return worker


async def begun(model: LocalModel) -> asyncio.Task[Reply]:
    """Return a reply that is being written, and takes long."""
    started = asyncio.Event()

    async def tell() -> Reply:
        async with aclosing(model.stream(STORY)) as parts:
            async for part in parts:
                started.set()
                if isinstance(part, Reply):
                    return part
        raise AssertionError

    task = asyncio.create_task(tell())
    await started.wait()
    return task


async def test_the_first_request_loads_the_model_and_the_next_one_uses_it(opened: Callable[..., LocalModel]) -> None:
    model = opened()
    assert await model.reachable()
    assert workers() == []
    assert await answered(model) == await answered(model)


async def test_a_killed_worker_ends_one_answer_and_the_next_request_starts_another(
    opened: Callable[..., LocalModel],
) -> None:
    model = opened()
    story = await begun(model)
    (worker,) = workers()
    os.kill(worker, signal.SIGKILL)
    with pytest.raises(ModelUnavailable, match="ended before it answered \\(SIGKILL\\)"):
        await story
    assert await answered(model) != worker


async def test_a_worker_that_is_killed_while_nobody_asks_is_replaced(opened: Callable[..., LocalModel]) -> None:
    model = opened()
    worker = await answered(model)
    os.kill(worker, signal.SIGKILL)
    await until(lambda: not model._runner.is_loaded)
    assert await answered(model) != worker


async def test_a_worker_that_is_killed_while_it_loads_is_replaced(opened: Callable[..., LocalModel]) -> None:
    model = opened()
    first = asyncio.create_task(model.reply(HELLO))
    await until(lambda: workers() != [])
    for worker in workers():
        os.kill(worker, signal.SIGKILL)
    with pytest.raises(ModelUnavailable, match="ended while it loaded the model \\(SIGKILL\\)"):
        await first
    assert not await model.reachable()
    await answered(model)
    assert await model.reachable()


@pytest.mark.parametrize("size", [2_000_000, 50_000_000], ids=["no-tensors", "half"])
async def test_a_truncated_file_is_unavailable_and_is_read_again(place: Path, size: int) -> None:
    whole, file = small_model().read_bytes(), place / "m.gguf"
    file.write_bytes(whole[:size])
    model = await open_local({"path": str(file), "threads": 1})
    for _ in range(2):
        with pytest.raises(ModelUnavailable, match=r"cannot load .*m\.gguf: ."):
            await model.reply(HELLO)
    assert not await model.reachable()
    file.write_bytes(whole)
    assert (await model.reply(HELLO)).text
    assert await model.reachable()
    await model.close()
    assert workers() == []


async def test_garbage_after_the_header_is_unavailable(place: Path) -> None:
    whole, file = small_model().read_bytes(), place / "m.gguf"
    end = whole.index(b"token_embd.weight")
    file.write_bytes(whole[:end] + os.urandom(5_000_000))
    model = await open_local({"path": str(file), "threads": 1})
    with pytest.raises(ModelUnavailable):
        await model.reply(HELLO)
    await model.close()
    assert workers() == []


async def test_a_file_that_was_removed_is_named(place: Path) -> None:
    file = place / "m.gguf"
    file.symlink_to(small_model())
    model = await open_local({"path": str(file), "threads": 1})
    file.unlink()
    with pytest.raises(NoSuchModel, match="there is no model file"):
        await model.reply(HELLO)
    assert await model.count_tokens(["a"]) is None
    assert not await model.reachable()
    await model.close()


async def test_a_cancelled_reply_ends_and_the_next_one_is_written(opened: Callable[..., LocalModel]) -> None:
    model = opened()
    story = await begun(model)
    (worker,) = workers()
    story.cancel()
    assert await answered(model) == worker
    assert story.cancelled()
    used = model._runner._worker
    assert used is not None
    await until(lambda: used._cancelled == set())
    assert used.alive


async def test_a_reply_that_is_given_up_after_its_end_needs_no_cancelling(opened: Callable[..., LocalModel]) -> None:
    model = opened()
    stream = model.stream(HELLO)
    assert await anext(stream)
    worker = model._runner._worker
    assert worker is not None
    assert [part async for part in stream]
    assert worker._cancelled == set()
    assert worker.alive


async def test_a_reply_that_is_cancelled_while_its_prompt_is_read_ends(opened: Callable[..., LocalModel]) -> None:
    model = opened()
    worker = await answered(model)
    book = asyncio.create_task(model.reply(BOOK))
    await asyncio.sleep(0.3)
    book.cancel()
    assert await answered(model) == worker


async def test_a_request_that_is_cancelled_before_its_turn_is_never_sent(opened: Callable[..., LocalModel]) -> None:
    model = opened()
    story = await begun(model)
    waiting = asyncio.create_task(model.reply(HELLO))
    await asyncio.sleep(0)
    waiting.cancel()
    story.cancel()
    await answered(model)


async def test_a_request_that_is_cancelled_while_the_model_loads_does_not_end_the_loading(
    opened: Callable[..., LocalModel],
) -> None:
    model = opened()
    first = asyncio.create_task(model.reply(HELLO))
    await until(lambda: workers() != [])
    first.cancel()
    (worker,) = workers()
    assert await answered(model) == worker


async def test_a_worker_that_does_not_stop_is_killed(
    opened: Callable[..., LocalModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = asyncio.Event()

    def noted(body: dict[str, Any], clean: Callable[[str], str]) -> dict[str, Any]:
        sent.set()
        return cleaned_body(body, clean)

    monkeypatch.setattr(process, "CANCEL_SECONDS", 0.2)
    monkeypatch.setattr(process, "cleaned_body", noted)
    model = opened()
    worker = await answered(model)
    sent.clear()
    # It is stopped before it is asked: a story may have ended by now.
    os.kill(worker, signal.SIGSTOP)
    asked = asyncio.create_task(model.reply(HELLO))
    await sent.wait()
    asked.cancel()
    await until(lambda: workers() == [])
    assert await answered(model) != worker


async def test_requests_are_answered_in_order(opened: Callable[..., LocalModel]) -> None:
    model = opened()
    order: list[int] = []

    async def ask(number: int) -> None:
        await model.reply(HELLO)
        order.append(number)

    await asyncio.gather(*(ask(number) for number in range(8)))
    assert order == list(range(8))
    assert len(workers()) == 1


async def test_tokens_are_counted_while_a_reply_is_written(opened: Callable[..., LocalModel]) -> None:
    model = opened()
    story = await begun(model)
    assert await model.count_tokens(["hello world"]) == [2]
    assert not story.done()
    story.cancel()


async def test_an_answer_that_takes_too_long_is_unavailable(opened: Callable[..., LocalModel]) -> None:
    model = opened(timeout=timedelta(seconds=3))
    with pytest.raises(ModelUnavailable, match="did not answer within 3 seconds"):
        await model.reply(STORY)


async def test_an_idle_worker_ends_and_the_next_request_starts_another(opened: Callable[..., LocalModel]) -> None:
    model = opened(idle=timedelta(seconds=1))
    worker = await answered(model)
    await until(lambda: workers() == [])
    assert await model.reachable()
    assert await answered(model) != worker


async def test_closing_ends_the_reply_that_is_written(opened: Callable[..., LocalModel]) -> None:
    model = opened()
    story = await begun(model)
    await model.close()
    with pytest.raises(ModelUnavailable):
        await story
    with pytest.raises(ModelUnavailable, match="is closed"):
        await model.reply(HELLO)


async def test_closing_ends_the_loading(opened: Callable[..., LocalModel]) -> None:
    model = opened()
    first = asyncio.create_task(model.reply(HELLO))
    await until(lambda: workers() != [])
    await model.close()
    with pytest.raises(ModelUnavailable):
        await first


async def test_a_worker_gets_no_secrets_sockets_or_signals_of_the_terminal(
    opened: Callable[..., LocalModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-the-daemon")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.set_inheritable(True)
        inode = f"socket:[{os.fstat(listening.fileno()).st_ino}]"
        worker = await answered(opened())
        given = Path(f"/proc/{worker}/environ").read_text()
        links = _files(worker)
    assert "sk-secret" not in given
    assert {line.partition("=")[0] for line in given.split("\0") if line} <= {"PYTHONPATH", *_INHERITED}
    assert inode not in links
    assert os.getsid(worker) == worker
    assert (
        os.getpriority(os.PRIO_PROCESS, worker) > os.getpriority(os.PRIO_PROCESS, 0)
        or os.getpriority(os.PRIO_PROCESS, 0) == 19
    )


async def test_a_worker_listens_only_in_a_folder_of_its_own(opened: Callable[..., LocalModel], place: Path) -> None:
    worker = await answered(opened())
    (folder,) = folders(place)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "model.sock").is_socket()
    inodes = _files(worker)
    tcp = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    assert not [columns for columns in tcp if f"socket:[{columns[9]}]" in inodes]


DAEMON = """
import asyncio, sys
from runtime.models.local.model import open_local
from runtime.models.request import Message, Request

async def main():
    model = await open_local({"threads": 1})
    async for part in model.stream(Request(messages=(Message("user", "Write a long story."),), max_tokens=4000)):
        print(part, flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize("when", ["loading", "writing"])
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
def test_a_worker_ends_with_the_daemon(place: Path, when: str, sent: signal.Signals) -> None:
    small_model()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(place)}
    with subprocess.Popen([sys.executable, "-c", DAEMON], stdout=subprocess.PIPE, env=environment, cwd=ROOT) as daemon:
        assert daemon.stdout is not None
        if when == "writing":
            assert daemon.stdout.readline()
        asyncio.run(until(lambda: workers(daemon.pid) != []))
        (worker,) = workers(daemon.pid)
        daemon.send_signal(sent)
        daemon.wait()
    asyncio.run(until(lambda: not is_worker(worker)))
    if when == "writing":
        asyncio.run(until(lambda: folders(place) == []))


def _files(pid: int) -> set[str]:
    """Return what the descriptors of a process refer to."""
    return {str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()}


async def test_the_memory_of_the_daemon_does_not_grow_with_answers(opened: Callable[..., LocalModel]) -> None:
    model = opened()

    async def ask(count: int) -> None:
        for _ in range(count):
            await model.reply(HELLO)
            await model.count_tokens(["a"])

    await ask(10)
    tracemalloc.start()
    try:
        await ask(10)
        before, _ = tracemalloc.get_traced_memory()
        await ask(100)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 100_000
