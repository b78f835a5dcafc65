"""Reload: however a file is saved, the routes change with it, and a broken program changes nothing."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from dslc.source import Source
from runtime.daemon.process.root import make
from runtime.daemon.process.settings import ProcessSettings
from runtime.daemon.program import reload
from runtime.daemon.program.app import App
from tests.cases import each_case
from tests.lanes import LONG, repeated
from tests.runtime.daemon.running import GITHUB, SECOND, Daemon, running, until, write_program


def mounted(daemon: Daemon, path: str = "/hooks/second") -> bool:
    return daemon.request("GET", path).status == 405


def generation(daemon: Daemon) -> int:
    return int(daemon.readyz().json()["generation"])


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    root = tmp_path_factory.mktemp("reloads")
    write_program(root)
    with running(root, "program") as daemon:
        yield daemon


@pytest.fixture
def daemon(started: Daemon) -> Daemon:
    """A daemon that runs GITHUB alone, whatever the test before did to its program."""
    for each in (started.root / "program").iterdir():
        shutil.rmtree(each) if each.is_dir() else each.unlink()
    write_program(started.root)
    until(lambda: mounted(started, "/hooks/github") and not mounted(started) and last_error(started) is None)
    return started


def last_error(daemon: Daemon) -> Any:
    return daemon.readyz().json()["last_error"]


def test_a_file_and_its_removal_are_seen_also_in_a_new_folder(daemon: Daemon) -> None:
    for folder in (".", "new/deeper"):
        (daemon.root / "program" / folder).mkdir(parents=True, exist_ok=True)
        file = write_program(daemon.root, SECOND, f"{folder}/second.symbiont")
        until(lambda: mounted(daemon))
        file.unlink()
        until(lambda: not mounted(daemon))
    assert mounted(daemon, "/hooks/github")


def test_an_edit_during_the_start_is_not_missed_and_warnings_of_the_compiler_are_logged(tmp_path: Path) -> None:
    warned = GITHUB.replace("secret://env/GITHUB_SECRET", "written-here")
    write_program(tmp_path, warned)
    with running(tmp_path, "program", wait=False) as daemon:
        # Recorded after the program has been read and before the listeners open.
        until((tmp_path / ".symbi/program.json").exists)
        write_program(tmp_path, warned + SECOND)
        daemon.wait_until_ready()
        until(lambda: mounted(daemon))
        daemon.until_logged("hooks.symbiont:4:14: P501")
        assert "written-here" not in daemon.log.read_text()


@LONG
def test_a_file_that_is_named_itself_is_followed_through_renames(tmp_path: Path) -> None:
    file = write_program(tmp_path)
    with running(tmp_path, "program/hooks.symbiont") as daemon:
        for number in range(3):
            new = file.with_suffix(".new")
            new.write_text(GITHUB + (SECOND if number % 2 == 0 else ""))
            new.replace(file)
            until(lambda wanted=number % 2 == 0: mounted(daemon) == wanted)  # type: ignore[misc]


def test_for_a_file_that_is_named_itself_no_folder_below_its_own_is_listened_to(tmp_path: Path) -> None:
    file = write_program(tmp_path)
    for number in range(20):
        (file.parent / f"unrelated-{number}").mkdir()
    with running(tmp_path, str(file)) as daemon:

        def listened() -> int:
            count = 0
            for info in Path(f"/proc/{daemon.process.pid}/fdinfo").iterdir():
                with contextlib.suppress(FileNotFoundError):  # closed in between
                    count += sum(line.startswith("inotify ") for line in info.read_text().splitlines())
            return count

        until(listened)
        daemon.load(file.read_text() + "# changed\n")
        assert listened() == 1


def test_saving_as_vim_does_is_seen(daemon: Daemon) -> None:
    file = daemon.root / "program/hooks.symbiont"
    (file.parent / "4913").touch()
    (file.parent / "4913").unlink()
    file.rename(file.with_name("hooks.symbiont~"))
    file.write_text(GITHUB + SECOND)
    file.with_name("hooks.symbiont~").unlink()
    until(lambda: mounted(daemon))


def test_a_git_checkout_is_seen(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path / "program", check=True, capture_output=True)

    write_program(tmp_path)
    git("init", "-q", "-b", "one")
    git("add", ".")
    git("commit", "-qm", "one")
    git("checkout", "-qb", "two")
    write_program(tmp_path, SECOND, "second.symbiont")
    git("add", ".")
    git("commit", "-qm", "two")
    with running(tmp_path, "program") as daemon:
        until(lambda: mounted(daemon))
        git("checkout", "-q", "one")
        until(lambda: not mounted(daemon))
        git("checkout", "-q", "two")
        until(lambda: mounted(daemon))


def test_a_kubernetes_config_map_swap_is_seen(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    for name, text in (("..one", GITHUB), ("..two", GITHUB + SECOND)):
        (folder / name).mkdir(parents=True)
        (folder / name / "hooks.symbiont").write_text(text)
    (folder / "..data").symlink_to("..one")
    (folder / "hooks.symbiont").symlink_to("..data/hooks.symbiont")
    with running(tmp_path, "program") as daemon:
        assert not mounted(daemon)
        (folder / "..tmp").symlink_to("..two")
        (folder / "..tmp").replace(folder / "..data")
        shutil.rmtree(folder / "..one")
        until(lambda: mounted(daemon))


def test_a_write_in_parts_ends_with_the_whole_file(daemon: Daemon) -> None:
    text = GITHUB + SECOND
    with (daemon.root / "program/hooks.symbiont").open("w") as handle:
        for start in range(0, len(text), 40):
            handle.write(text[start : start + 40])
            handle.flush()
            os.fsync(handle.fileno())
    until(lambda: mounted(daemon) and last_error(daemon) is None)


@LONG
def test_a_folder_that_vanishes_changes_nothing_and_is_seen_when_it_comes_back(tmp_path: Path) -> None:
    file = write_program(tmp_path)
    with running(tmp_path, "program") as daemon:
        shutil.rmtree(file.parent)
        error = until(lambda: last_error(daemon))
        assert "program" in error["message"]
        assert mounted(daemon, "/hooks/github")
        write_program(tmp_path, GITHUB + SECOND)
        until(lambda: mounted(daemon))
        write_program(tmp_path, GITHUB)
        until(lambda: not mounted(daemon))
        assert last_error(daemon) is None
        for turn in range(5):  # another folder takes its place at once
            shutil.rmtree(file.parent)
            write_program(tmp_path, GITHUB + f"# {turn}\n")
            until(lambda: last_error(daemon) is None and mounted(daemon, "/hooks/github"))
            write_program(tmp_path, GITHUB + SECOND)
            until(lambda: mounted(daemon))


@each_case(
    ("text", "second", "what"),
    [
        (None, None, "no .symbiont files under"),
        ("# nothing yet\n", None, "no block is declared"),
        (GITHUB, "", "second.symbiont: the file is empty now"),
        (GITHUB, " \n\t\n", "second.symbiont: the file is empty now"),
    ],
)
def test_files_that_declare_nothing_take_nothing_away(
    daemon: Daemon, text: str | None, second: str | None, what: str
) -> None:
    write_program(daemon.root, SECOND, "second.symbiont")
    until(lambda: mounted(daemon))
    for name, content in (("hooks.symbiont", text), ("second.symbiont", second)):
        file = daemon.root / "program" / name
        file.unlink() if content is None else file.write_text(content)
    until(lambda: what in (last_error(daemon) or {"message": ""})["message"])
    assert mounted(daemon, "/hooks/github")
    assert mounted(daemon)
    write_program(daemon.root)
    write_program(daemon.root, SECOND + "# as before\n", "second.symbiont")
    until(lambda: last_error(daemon) is None)
    assert mounted(daemon)


def test_a_broken_edit_changes_nothing_and_says_where(daemon: Daemon) -> None:
    before, file = generation(daemon), daemon.root / "program/hooks.symbiont"
    file.write_text(GITHUB.replace("provider github", "provider gihub"))

    def refusal() -> Any:
        # The file is empty for a moment before the new text is in it.
        error = last_error(daemon)
        return error if error and error["code"] else None

    error = until(refusal)
    assert (error["code"], error["line"], error["column"]) == ("T403", 3, 14)
    assert error["file"].endswith("program/hooks.symbiont")
    assert mounted(daemon, "/hooks/github")
    assert generation(daemon) == before
    daemon.until_logged("hooks.symbiont:3:14: T403")
    file.write_text(GITHUB)
    until(lambda: last_error(daemon) is None)


def test_touching_a_file_is_no_change(daemon: Daemon) -> None:
    before, file = generation(daemon), daemon.root / "program/hooks.symbiont"
    file.touch()
    file.write_text(GITHUB)
    write_program(daemon.root, SECOND, "second.symbiont")
    until(lambda: mounted(daemon))
    assert generation(daemon) == before + 1


def test_a_hangup_reads_the_secrets_again_and_keeps_the_last_value_of_one_that_fails(tmp_path: Path) -> None:
    write_program(tmp_path, GITHUB.replace("secret://env/GITHUB_SECRET", "secret://file/key"))
    key = tmp_path / "key"
    key.write_text("first-secret")
    body = b'{"action":"opened"}'
    with running(tmp_path, "program") as daemon:
        assert daemon.github(body, "1").status == 401
        key.write_text("It's a Secret to Everybody\n")
        daemon.process.send_signal(1)
        until(lambda: daemon.github(body, "2").status == 202)
        key.unlink()
        daemon.process.send_signal(1)
        until(lambda: daemon.readyz().json()["warnings"])
        assert daemon.github(body, "3").status == 202
        daemon.until_logged("its last value is still used")


@repeated("rounds", 2, 40)
def test_no_request_is_refused_or_lost_during_reloads(tmp_path: Path, rounds: int) -> None:
    write_program(tmp_path)
    wrong: list[tuple[int, bytes]] = []
    with running(tmp_path, "program") as daemon:
        stop = threading.Event()
        sent = [0, 0, 0, 0]

        def send(worker: int) -> None:
            while sent[worker] < 10 * rounds or not stop.is_set():
                answer = daemon.github(b'{"n":1}', f"{worker}-{sent[worker]}")
                sent[worker] += 1
                if answer.status != 202:
                    wrong.append((answer.status, answer.body))

        workers = [threading.Thread(target=send, args=(number,)) for number in range(4)]
        for worker in workers:
            worker.start()
        for turn in range(rounds):
            daemon.load(GITHUB + f"# {turn}\n" + (SECOND if turn % 2 else ""))
        stop.set()
        for worker in workers:
            worker.join()
        assert wrong == []
        assert sum(sent) >= 40 * rounds
        ids = {
            row["provider_delivery_id"] for row in daemon.attempts("--limit", "10000") if row["verdict"] == "accepted"
        }
        assert ids == {f"{worker}-{number}" for worker in range(4) for number in range(sent[worker])}


def test_a_link_that_leads_out_of_the_folder_is_left_out_and_said(tmp_path: Path) -> None:
    write_program(tmp_path)
    (tmp_path / "elsewhere.symbiont").write_text(SECOND)
    (tmp_path / "program" / "link.symbiont").symlink_to(tmp_path / "elsewhere.symbiont")
    with running(tmp_path, "program") as daemon:
        assert not mounted(daemon)
        daemon.until_logged("link.symbiont: the link leads out of its folder")
    with running(tmp_path, "program", "program/link.symbiont") as daemon:
        assert mounted(daemon)


@LONG
async def test_a_program_that_cannot_run_is_compiled_once_however_often_it_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = write_program(tmp_path, "agent a {}\n"), write_program(tmp_path, "agent b {}\n", "second.symbiont")
    compiled: list[list[str]] = []
    compile_sources = reload.compile_sources

    def counting(sources: Sequence[Source], left_out: Sequence[Path] = ()) -> reload.CompiledSources:
        compiled.append([source.name for source in sources])
        return compile_sources(sources, left_out)

    async with App.open(make(tmp_path, os.environ, tmp_path), ProcessSettings.read({})) as app:
        await app.load([tmp_path / "program"])
        monkeypatch.setattr(reload, "compile_sources", counting)
        second.write_text("")
        for _ in range(3):
            assert not await app.reload()
            assert app.problem is not None
            assert "empty now" in app.problem.text()
        assert len(compiled) == 1
        first.write_text("agent a {}\nagent c {}\n")
        second.write_text("agent b {}\n")
        assert await app.reload()
        assert len(compiled) == 2
        assert set(app.generation.program.agents) == {"a", "b", "c"}
