"""`symbi webhook add` and `remove`: their edits, their errors, and the reload by a running daemon."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from runtime.cli import main
from tests.runtime.daemon.running import GITHUB, running, symbi, until, write_program

Run = Callable[..., subprocess.CompletedProcess[str]]
_ENV = ("--secret", "secret://env/GITHUB_SECRET")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run `symbi webhook …` in a folder without a root, so that the folder is the program."""

    def webhook(*arguments: str, input: str | None = None) -> subprocess.CompletedProcess[str]:  # noqa: A002
        return symbi("webhook", *arguments, root=tmp_path, input=input)

    return webhook


def test_a_webhook_is_added_to_the_only_file_in_canonical_form(tmp_path: Path, run: Run) -> None:
    file = tmp_path / "hooks.symbiont"
    file.write_text(GITHUB)
    done = run("add", "shop", "--path", "/shop", "--provider", "stripe", *_ENV, "--agent", "reviewer")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("added webhook shop: hooks.symbiont\n")
    assert file.read_text() == (
        f'{GITHUB}\nwebhook shop {{\n    path     "/shop"\n    provider stripe\n'
        '    secret   "secret://env/GITHUB_SECRET"\n    agent    reviewer\n}\n'
    )


def test_without_a_root_the_webhooks_that_the_folder_declares_are_listed(tmp_path: Path, run: Run) -> None:
    nothing = run("list")
    assert (nothing.returncode, "no root here" in nothing.stderr) == (2, True)
    file = tmp_path / "hooks.symbiont"
    literal = 'webhook own { path "/own" provider custom secret "s3cret-of-mine" }\n'
    file.write_text(f'{GITHUB}{literal}webhook open {{ path "/open" insecure_allow_unverified true }}\n')
    done = run("list")
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.split("  ") for line in done.stdout.splitlines()[2:]]
    rows = [[each.strip() for each in line if each.strip()] for line in lines]
    assert rows == [
        ["github-events", "/hooks/github", "github", "reviewer", "no daemon", "env GITHUB_SECRET"],
        ["open", "/open", "custom", "-", "no daemon", "none: unverified requests are accepted"],
        ["own", "/own", "custom", "-", "no daemon", "written in the program"],
    ]
    (first, *_) = json.loads(run("list", "--json").stdout)["webhooks"]
    assert (first["declared"], first["mounted"], first["url"]) == ("hooks.symbiont:1", False, None)
    assert not (tmp_path / ".symbi").exists()
    file.write_text(GITHUB.replace("secret  ", "sceret  "))
    wrong = run("list")
    assert (wrong.returncode, "N202" in wrong.stderr) == (1, True)


def test_a_removed_webhook_leaves_the_file_as_it_was(tmp_path: Path, run: Run) -> None:
    file = tmp_path / "hooks.symbiont"
    text = GITHUB.replace("\n", "\r\n").removesuffix("\r\n")
    file.write_bytes(text.encode())
    assert run("add", "shop", "--path", "/shop", *_ENV).returncode == 0
    assert b"\r\n\r\nwebhook shop {\r\n" in file.read_bytes()
    done = run("remove", "shop", "--json")
    assert (done.returncode, json.loads(done.stdout)) == (
        0,
        {
            "webhook": "shop",
            "file": "hooks.symbiont",
            "done": "removed",
            "warnings": [],
            "errors": 0,
            "daemon": "not running",
        },
    )
    assert file.read_bytes() == text.encode() + b"\r\n"


def test_of_several_files_it_goes_to_the_agents_then_to_the_one_with_webhooks_then_to_a_new_one(
    tmp_path: Path, run: Run
) -> None:
    (tmp_path / "agents.symbiont").write_text("agent a {}\n")
    (tmp_path / "memories.symbiont").write_text("memory m {}\n")
    assert run("add", "one", "--path", "/1", *_ENV).stdout.startswith("added webhook one: webhooks.symbiont\n")
    assert run("add", "two", "--path", "/2", *_ENV).stdout.startswith("added webhook two: webhooks.symbiont\n")
    named = run("add", "three", "--path", "/3", *_ENV, "--agent", "a")
    assert named.stdout.startswith("added webhook three: agents.symbiont\n")
    given = run("add", "four", "--path", "/4", *_ENV, "--file", "memories.symbiont", "--memory", "m")
    assert given.stdout.startswith("added webhook four: memories.symbiont\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "agents.symbiont",
        "memories.symbiont",
        "webhooks.symbiont",
    ]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["github-events", "--path", "/new", *_ENV], "N204"),
        (["new", "--path", "/hooks/github", *_ENV], "N205"),
        (["new", "--path", "hooks", *_ENV], "T406"),
        (["new", "--path", "/new", *_ENV, "--provider", "githb"], "T403"),
        (["new", "--path", "/new", *_ENV, "--memory", "nowhere"], "R301"),
        (["new", "--path", "/new", "--secret", "secret://nowhere/x"], "P503"),
        (["a name", "--path", "/new", *_ENV], "N206"),
        (["new", "--path", '/"}\n#', *_ENV], "T406"),
    ],
)
def test_what_would_be_an_error_is_shown_and_not_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.symbiont").write_text(GITHUB)
    with pytest.raises(SystemExit) as ended:
        main(["webhook", "add", *arguments, "--file", "b.symbiont"])
    assert ended.value.code == 1
    shown = capsys.readouterr().err
    assert f"error[{code}]" in shown
    assert "nothing was written" in shown
    assert [path.name for path in tmp_path.iterdir()] == ["a.symbiont"]
    assert (tmp_path / "a.symbiont").read_text() == GITHUB


def test_a_webhook_that_would_not_be_mounted_is_not_added(tmp_path: Path, run: Run) -> None:
    file = tmp_path / "hooks.symbiont"
    file.write_text(GITHUB)
    given = ("add", "texts", "--path", "/texts", "--provider", "twilio", *_ENV)
    refused = run(*given)
    assert refused.returncode != 0
    assert "`twilio` signs the URL that it calls: `public_url` is required" in refused.stderr
    assert file.read_text() == GITHUB
    assert run(*given, "--public-url", "https://hooks.example.org/texts").returncode == 0
    assert '    public_url "https://hooks.example.org/texts"\n' in file.read_text()


def test_a_secret_itself_is_refused_unless_it_is_allowed_and_never_shown(tmp_path: Path, run: Run) -> None:
    (tmp_path / "a.symbiont").write_text(GITHUB)
    refused = run("add", "new", "--path", "/new", "--secret", "hunter2")
    assert (refused.returncode, "--allow-literal-secret" in refused.stderr) == (2, True)
    assert (tmp_path / "a.symbiont").read_text() == GITHUB
    wrong = run("add", "new", "--path", "new", "--secret", "-", "--allow-literal-secret", input="hunter2\n")
    assert wrong.returncode == 1
    done = run("add", "new", "--path", "/new", "--secret", "-", "--allow-literal-secret", "--json", input="hunter2\n")
    assert (done.returncode, json.loads(done.stdout)["warnings"]) == (0, ["a secret is written in the file"])
    assert '    secret "hunter2"\n' in (tmp_path / "a.symbiont").read_text()
    for shown in (refused, wrong, done):
        assert "hunter2" not in shown.stdout + shown.stderr


def test_a_webhook_without_a_secret_is_told_where_to_get_one(tmp_path: Path, run: Run) -> None:
    done = run("add", "new", "--path", "/new")
    assert (done.returncode, "secret://generated/new" in done.stderr) == (2, True)
    assert run("add", "new", "--path", "/new", "--secret", "secret://generated/new").returncode == 0
    assert (tmp_path / "webhooks.symbiont").exists()


def test_an_unknown_webhook_is_not_removed(tmp_path: Path, run: Run) -> None:
    (tmp_path / "a.symbiont").write_text(GITHUB)
    done = run("remove", "github-event")
    assert (done.returncode, "did you mean github-events?" in done.stderr) == (2, True)
    assert run("remove", "github-events", "--file", "nowhere.symbiont").returncode == 2
    assert (tmp_path / "a.symbiont").read_text() == GITHUB


def test_of_two_files_that_declare_it_one_must_be_named(tmp_path: Path, run: Run) -> None:
    (tmp_path / "a.symbiont").write_text(GITHUB)
    (tmp_path / "b.symbiont").write_text('webhook github-events { path "/b" secret "secret://env/A" }\n')
    done = run("remove", "github-events")
    assert (done.returncode, "a.symbiont, b.symbiont" in done.stderr) == (2, True)
    assert run("remove", "github-events", "--file", "b.symbiont").returncode == 0
    assert (tmp_path / "a.symbiont").read_text() == GITHUB
    assert not (tmp_path / "b.symbiont").exists()


def test_a_file_with_a_syntax_error_is_not_edited(tmp_path: Path, run: Run) -> None:
    (tmp_path / "a.symbiont").write_text("webhook new { path }\n")
    done = run("add", "other", "--path", "/new", *_ENV)
    assert (done.returncode, "error[S101]" in done.stderr) == (1, True)
    assert "syntax error" in run("remove", "new").stderr
    assert (tmp_path / "a.symbiont").read_text() == "webhook new { path }\n"


def test_errors_that_were_there_before_do_not_hinder(tmp_path: Path, run: Run) -> None:
    (tmp_path / "a.symbiont").write_text("memory m { retention 90 }\n")
    done = run("add", "new", "--path", "/new", *_ENV)
    assert done.returncode == 0
    assert "the program still has an error" in done.stdout


def test_webhooks_added_at_the_same_moment_are_all_there(tmp_path: Path, run: Run) -> None:
    with ThreadPoolExecutor(4) as pool:
        ended = list(pool.map(lambda at: run("add", f"w{at}", "--path", f"/{at}", *_ENV), range(4)))
    assert [done.returncode for done in ended] == [0] * 4, [done.stderr for done in ended]
    assert (tmp_path / "webhooks.symbiont").read_text().count("webhook w") == 4


def test_a_running_daemon_mounts_what_is_added_and_unmounts_what_is_removed(tmp_path: Path) -> None:
    write_program(tmp_path)
    with running(tmp_path, "program") as daemon:

        def mounted() -> dict[str, bool]:
            rows = json.loads(daemon.symbi("webhook", "list", "--json").stdout)["webhooks"]
            return {row["name"]: row["mounted"] for row in rows}

        added = daemon.symbi("webhook", "add", "shop", "--path", "/shop", "--provider", "github", *_ENV)
        assert (added.returncode, added.stderr) == (0, "")
        assert "added webhook shop: program/hooks.symbiont" in added.stdout
        assert "the running daemon loads it" in added.stdout
        until(lambda: mounted() == {"github-events": True, "shop": True}, what="the new webhook")
        assert daemon.github(b"{}", "d-1", path="/shop").status == 202
        assert daemon.symbi("webhook", "remove", "shop").returncode == 0
        until(lambda: mounted() == {"github-events": True}, what="its end")
        assert daemon.github(b"{}", "d-2", path="/shop").status == 404


def test_a_file_that_a_removal_leaves_empty_goes_with_it(tmp_path: Path) -> None:
    write_program(tmp_path)
    file = tmp_path / "program/shop.symbiont"
    with running(tmp_path, "program") as daemon:
        assert daemon.symbi("webhook", "add", "shop", "--path", "/shop", *_ENV, "--file", str(file)).returncode == 0
        until(lambda: daemon.github(b"{}", "d-1", path="/shop").status != 404, what="the new webhook")
        assert daemon.symbi("webhook", "remove", "shop").returncode == 0
        assert not file.exists()
        until(lambda: daemon.github(b"{}", "d-2", path="/shop").status == 404, what="its end")
        assert daemon.readyz().json()["last_error"] is None


def test_nothing_is_removed_that_no_daemon_would_follow(tmp_path: Path) -> None:
    alone = GITHUB[: GITHUB.index("agent reviewer")].replace("    agent    reviewer\n", "")
    files = [write_program(tmp_path, alone), write_program(tmp_path, "memory m {}\n", "memories.symbiont")]
    named = [f"program/{file.name}" for file in files]
    with running(tmp_path, *named) as daemon:
        done = daemon.symbi("webhook", "remove", "github-events")
    assert (done.returncode, files[0].read_text()) == (1, alone)
    assert "program/hooks.symbiont would be empty, and the daemon was started on that file" in done.stderr
    files[1].unlink()
    with running(tmp_path, "program") as daemon:
        done = daemon.symbi("webhook", "remove", "github-events")
    assert (done.returncode, files[0].read_text()) == (1, alone)
    assert "the program would be empty" in done.stderr


def test_the_program_is_the_one_that_the_daemon_was_last_started_on(tmp_path: Path) -> None:
    file = write_program(tmp_path)
    with running(tmp_path, "program"):
        pass
    (tmp_path / "other.symbiont").write_text("agent elsewhere {}\n")
    done = symbi("webhook", "add", "shop", "--path", "/shop", *_ENV, root=tmp_path)
    assert done.stdout.startswith("added webhook shop: program/hooks.symbiont\n")
    assert "no daemon is running" in done.stdout
    assert "webhook shop" in file.read_text()
