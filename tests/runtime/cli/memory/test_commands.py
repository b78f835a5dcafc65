"""`symbi memory`: with and without a daemon, for people and for programs."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from runtime.daemon.process.root import make
from tests.runtime.daemon.running import Daemon, running, symbi, write_program
from tests.runtime.daemon.terminal import terminal

PROGRAM = """\
memory notes {
    path      "notes"
    embedding hashing
}
memory audit {
    store     records
    path      "audit"
    embedding hashing
}
agent reviewer {
    memory      notes
    instruction "Remember."
}
agent auditor {
    memory      audit
    instruction "Remember."
}
"""

Symbi = Callable[..., "subprocess.CompletedProcess[str]"]
BOTH = pytest.mark.parametrize("run", ["with a daemon", "without a daemon"], indirect=True)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    root = tmp_path_factory.mktemp("memory")
    write_program(root, PROGRAM)
    with running(root, "program") as started:
        yield started


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root without a daemon."""
    write_program(tmp_path, PROGRAM)
    make(tmp_path, os.environ, tmp_path)
    return tmp_path


@pytest.fixture
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Symbi]:
    """Run `symbi` in a fresh root, with a daemon unless the test asks for both."""
    write_program(tmp_path, PROGRAM)
    if getattr(request, "param", None) == "without a daemon":
        make(tmp_path, os.environ, tmp_path)
        yield partial(symbi, root=tmp_path)
        return
    with running(tmp_path, "program") as started:
        yield started.symbi


def good(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def refused(done: subprocess.CompletedProcess[str], code: int, *said: str) -> None:
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    for text in said:
        assert text in done.stdout + done.stderr, (text, done)


@BOTH
def test_what_is_written_is_found_listed_shown_counted_and_verified(run: Symbi) -> None:
    wrote = run("memory", "write", "reviewer", "The API takes 100 requests a minute", "--tag", "api", "--author", "ada")
    memory_id = good(wrote).strip()
    assert wrote.stderr.startswith("stored in the memory notes")
    good(run("memory", "write", "reviewer", "Deploy with make deploy", "--type", "procedure"))
    found = good(run("memory", "search", "reviewer", "requests a minute"))
    first, second, *_ = found.splitlines()
    assert first.split()[0] == "1"
    assert first.endswith("notes/reviewer/memory.md:5")
    assert "by ada" in first
    assert second.strip() == "The API takes 100 requests a minute"
    listed = good(run("memory", "list"))
    assert listed.index("Deploy with make deploy") < listed.index("The API takes")
    assert memory_id in listed
    shown = good(run("memory", "show", memory_id))
    assert "api" in shown
    assert "notes/reviewer/memory.md:5" in shown
    assert shown.endswith("The API takes 100 requests a minute\n")
    stats = json.loads(good(run("memory", "stats", "--json")))
    assert [(row["agent"], row["memory"], row["items"]) for row in stats["agents"]] == [("reviewer", "notes", 2)]
    assert "reviewer" in good(run("memory", "stats"))
    assert good(run("memory", "verify")) == "good  reviewer in notes: 1 file, 2 items\n"


def test_the_last_n_come_newest_first_and_by_tag_type_and_agent(run: Symbi) -> None:
    for number in range(4):
        good(run("memory", "write", "reviewer", f"note {number}", "--type", "episode", "--tag", f"t{number % 2}"))
    good(run("memory", "write", "auditor", "a record", "--tag", "t0"))

    def texts(*arguments: str) -> list[str]:
        return [item["text"] for item in json.loads(good(run("memory", "list", "--json", *arguments)))["items"]]

    assert texts("--limit", "2") == ["a record", "note 3"]
    assert texts("--agent", "reviewer") == ["note 3", "note 2", "note 1", "note 0"]
    assert texts("--tag", "t0") == ["a record", "note 2", "note 0"]
    assert texts("--tag", "t0", "--type", "episode") == ["note 2", "note 0"]
    assert texts("--tag", "t0", "--tag", "t1", "--memory", "notes") == ["note 3", "note 2", "note 1", "note 0"]
    assert texts("--all-tags", "t0", "--all-tags", "t1") == []
    assert texts("--since", "1h", "--memory", "audit") == ["a record"]
    assert texts("--until", "1h") == []
    assert good(run("memory", "list", "--tag", "nobody-has-it")) == "There are no such items.\n"


def test_one_thing_is_edited_and_forgotten_by_the_beginning_of_its_id(run: Symbi) -> None:
    memory_id = good(run("memory", "write", "reviewer", "The API takes 100 requests")).strip()
    assert memory_id in good(run("memory", "search", "reviewer", "requests")).splitlines()[0]
    assert good(run("memory", "show", memory_id[:8])) == good(run("memory", "show", memory_id))
    edited = run("memory", "edit", memory_id[:8], "-", input="The API takes 200 requests\n")
    new = good(edited).strip()
    assert new != memory_id
    assert edited.stderr == "changed in the memory notes; its id is now\n"
    refused(run("memory", "show", memory_id), 2, "there is no item with the id", "gives an item a new id")
    assert "The API takes 200 requests" in good(run("memory", "show", new))
    refused(run("memory", "forget", new), 2, "“The API takes 200 requests” of reviewer in the memory notes", "--yes")
    assert good(run("memory", "forget", new[:8], "--yes")) == "deleted 1 item\n"
    assert good(run("memory", "list")) == "There are no such items.\n"
    refused(run("memory", "forget", new, "--yes"), 2, "there is no item with the id")


@BOTH
def test_what_cannot_be_forgotten_is_named_and_the_rest_is_forgotten(run: Symbi) -> None:
    # Equal entries of a day differ only by their order.
    for _ in range(3):
        good(run("memory", "write", "reviewer", "the same", "--type", "episode"))
    good(run("memory", "write", "reviewer", "another", "--type", "episode"))
    record = good(run("memory", "write", "auditor", "a record")).strip()
    items = json.loads(good(run("memory", "list", "--agent", "reviewer", "--json")))["items"]
    same = sorted(item["memory_id"] for item in items if item["text"] == "the same")
    nowhere = "00000000-0000-4000-8000-000000000000"
    done = run("memory", "forget", *same, nowhere, record, "--yes", "--json")
    refused(done, 1)
    answer = json.loads(done.stdout)
    assert sorted(item["memory_id"] for item in answer["deleted"]) == same
    assert [each["memory_id"] for each in answer["failed"]] == [nowhere, record]
    assert "append-only" in answer["failed"][1]["message"]
    assert {item["text"] for item in json.loads(good(run("memory", "list", "--json")))["items"]} == {
        "another",
        "a record",
    }
    refused(run("memory", "edit", record, "x"), 1, "the memory audit is append-only")


def test_search_explains_scores_and_takes_every_filter(daemon: Daemon) -> None:
    good(daemon.symbi("memory", "write", "reviewer", "Bluebird flies at dawn", "--project", "p1", "--tag", "fly"))
    plain = daemon.symbi("memory", "search", "reviewer", "bluebird", "--project", "p1")
    explained = good(daemon.symbi("memory", "search", "reviewer", "bluebird", "--project", "p1", "--explain"))
    assert "keyword" not in good(plain)
    assert "keyword" in explained
    answer = json.loads(good(daemon.symbi("memory", "search", "reviewer", "bluebird", "--json", "--limit", "1")))
    (hit,) = answer["hits"]
    assert abs(sum(hit["parts"].values()) - hit["score"]) < 1e-5
    shown = [f"{name} {hit[key]:.3f}" for name, key in (("relevance", "relevance"), ("words", "keyword_share"))]
    assert all(each in explained for each in shown)
    search = ("memory", "search", "reviewer", "bluebird", "--limit", "3", "--threshold")
    assert "Bluebird" in good(daemon.symbi(*search, "0.5"))
    refused(daemon.symbi(*search, "1.1"), 2, "symbi: --threshold: ")
    unlike = daemon.symbi("memory", "search", "reviewer", "purple giraffes", "--threshold", "0.5")
    assert good(unlike) == "Nothing was found.\n"
    assert isinstance(answer["notes"], list)
    for wanted in (("--tag", "fly", "--tag", "other"), ("--all-tags", "fly"), ("--since", "7d"), ("--type", "fact")):
        assert "Bluebird" in good(daemon.symbi("memory", "search", "reviewer", "bluebird", *wanted)), wanted
    refused(daemon.symbi("memory", "search", "reviewer", "bluebird", "--user", "ada"), 2, "no user is called 'ada'")
    good(daemon.symbi("user", "add", "ada"))
    for wanted in (("--all-tags", "fly", "--all-tags", "x"), ("--until", "2026-02-14"), ("--user", "ada")):
        said = good(daemon.symbi("memory", "search", "reviewer", "bluebird", *wanted))
        assert said == "Nothing was found.\n", wanted


def test_a_query_of_only_stop_words_is_answered_with_a_note(daemon: Daemon) -> None:
    good(daemon.symbi("memory", "write", "reviewer", "It is what it was"))
    done = daemon.symbi("memory", "search", "reviewer", "what is it")
    good(done)
    assert "note: " in done.stderr
    assert "stop words" in done.stderr


def test_bad_input_is_one_clear_line(daemon: Daemon) -> None:
    for command in (
        ("search", "revewer", "x"),
        ("write", "revewer", "x"),
        ("list", "--agent", "revewer"),
        ("inspect", "revewer"),
        ("stats", "revewer"),
        ("compact", "revewer"),
        ("purge", "revewer", "--yes"),
        ("reindex", "revewer"),
        ("verify", "revewer"),
        ("export", "revewer"),
    ):
        refused(daemon.symbi("memory", *command), 2, "no agent is called 'revewer'", "did you mean reviewer?")
    refused(daemon.symbi("memory", "stats", "--memory", "note"), 2, "no memory is called 'note'", "did you mean notes?")
    search = ("memory", "search", "reviewer")
    refused(daemon.symbi(*search, ""), 2, "nothing to search for")
    refused(daemon.symbi(*search, " "), 2, "nothing to search for")
    refused(daemon.symbi(*search, "x", "--limit", "0"), 2, "--limit")
    refused(daemon.symbi(*search, "x", "--limit", "101"), 2, "--limit")
    refused(daemon.symbi(*search, "x", "--since", "yesterday"), 2, "'yesterday' is not a time", "7d")
    refused(daemon.symbi(*search, "x", "--until", "2026-02-30"), 2, "'2026-02-30' is not a time")
    refused(daemon.symbi(*search, "x", "--type", "facts"), 2, "'facts' is not one of")
    refused(daemon.symbi(*search, "x" * 3000), 2, "symbi: QUERY: ")
    refused(daemon.symbi("memory", "list", "--limit", "0"), 2, "0 is not in the range")
    refused(daemon.symbi("memory", "show", "x"), 2, "symbi: ")
    refused(daemon.symbi("memory", "show", "5f3c1f0e-7c7b-4a55-9a3e-0d6a5f0f7a11"), 2, "there is no item with the id")
    refused(daemon.symbi("memory", "inspect", "reviewer", "--day", "2026-2-3"), 2, "is not a day", "YYYY-MM-DD")
    refused(daemon.symbi("memory", "compact"), 2, "AGENT or --all")
    refused(daemon.symbi("memory", "compact", "reviewer", "--all"), 2, "AGENT or --all")
    write = ("memory", "write", "reviewer")
    refused(daemon.symbi(*write, ""), 2, "the text is empty")
    refused(daemon.symbi(*write, "x", "--confidence", "2"), 2, "--confidence")
    refused(daemon.symbi(*write, "x", "--risk-tier", "PINK"), 2, "--risk-tier")
    refused(daemon.symbi(*write, "x", "--evidence", "nowhere.json"), 2, "--evidence nowhere.json: no such file")
    refused(daemon.symbi(*write, "x", "--close-governance", ""), 2, "done:")
    refused(daemon.symbi(*write, "x", "--source-uri", "symbiont:delivery/1"), 2, "source_uri")
    refused(daemon.symbi("memory", "import", "nowhere.jsonl"), 2, "nowhere.jsonl: no such file")
    refused(daemon.symbi("memory", "export", "--output", "nowhere/x.jsonl"), 2, "cannot be written")
    refused(daemon.symbi("memory", "export", "--output", "."), 2, ". is a folder")


def test_text_from_standard_input_and_what_is_wrong_with_it(daemon: Daemon) -> None:
    good(daemon.symbi("memory", "write", "auditor", "-", input="two lines\nof text\n"))
    assert "of text" in good(daemon.symbi("memory", "search", "auditor", "lines"))
    (newest,) = json.loads(good(daemon.symbi("memory", "list", "--limit", "1", "--agent", "auditor", "--json")))[
        "items"
    ]
    assert newest["text"] == "two lines\nof text", "the end of the last line is no part of it"
    refused(daemon.symbi("memory", "write", "auditor", "-", input="x" * 10_000_000), 1, "too large", "1048576")
    refused(daemon.symbi("memory", "write", "auditor", "-", input=" \n"), 2, "the text is empty")


def test_a_dry_run_shows_the_record_without_its_secrets_and_writes_nothing(daemon: Daemon) -> None:
    before = good(daemon.symbi("memory", "list", "--agent", "auditor"))
    written = ("memory", "write", "auditor", "token ghp_0123456789abcdefghijABCDEFGHIJ012345 works", "--dry-run")
    record = json.loads(good(daemon.symbi(*written, "--type", "pattern", "--confidence", "0.9")))
    assert "ghp_" not in json.dumps(record)
    assert "[REDACTED:" in json.dumps(record)
    assert good(daemon.symbi("memory", "list", "--agent", "auditor")) == before


def test_nothing_that_is_said_of_an_item_begins_a_line_of_its_own(run: Symbi) -> None:
    forged = "x\n 1  9.999  2026-01-01 00:00  fact  forged\r\u2028forged\x1b[0m"
    said = ("--tag", forged, "--author", forged, "--source-uri", forged, "--session-id", forged, "--source", forged)
    memory_id = good(run("memory", "write", "reviewer", "A pelican", *said, "--project", forged)).strip()
    for command in (
        ("search", "reviewer", "pelican"),
        ("show", memory_id),
        ("list", "--limit", "3"),
        ("stats",),
        ("verify",),
    ):
        lines = good(run("memory", *command)).splitlines()
        assert [line for line in lines if line.lstrip().startswith(("1  9.999", "forged"))] == []
        assert "\x1b" not in "".join(lines)


def test_a_write_says_which_commit_it_is_about(daemon: Daemon, tmp_path: Path) -> None:
    asked = ("memory", "write", "auditor", "about code", "--dry-run", "--json", "--root", str(daemon.root))
    here = json.loads(good(symbi(*asked, root=tmp_path, GIT_CEILING_DIRECTORIES=str(tmp_path.parent))))
    assert '"git_commit": null' in json.dumps(here)
    subprocess.run(
        ["bash", "-c", "git init -q . && git -c user.name=a -c user.email=a@example.com commit -q --allow-empty -m x"],
        cwd=tmp_path,
        check=True,
    )
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout.strip()
    assert f'"git_commit": "{commit}"' in json.dumps(json.loads(good(symbi(*asked, root=tmp_path))))
    named = json.loads(good(symbi(*asked, "--git-commit", "a109d56", root=tmp_path)))
    assert '"git_commit": "a109d56"' in json.dumps(named)


def test_gates_are_closed_with_options_and_named_when_they_are_not(tmp_path: Path) -> None:
    gated = PROGRAM.replace(
        "store     records", "store     records { gates [governance tdd_proof evidence risk_tier] }"
    )
    write_program(tmp_path, gated)
    with running(tmp_path, "program") as daemon:
        write = ("memory", "write", "auditor", "Added a comment", "--type", "pattern")
        refused(daemon.symbi(*write), 1, "governance", "tdd_proof", "evidence", "risk_tier", "--close-governance")
        (tmp_path / "shown.json").write_text("{}")
        closed = ("--close-governance", "na:read-only", "--tdd-proof", "na:docs-only", "--risk-tier", "GREEN")
        refused(daemon.symbi(*write, *closed), 1, "the gate evidence is not closed", "--evidence")
        for more in ((), ("--json",)):
            preview = daemon.symbi(*write, *closed, "--dry-run", *more)
            refused(preview, 1, "the gate evidence is not closed", "--evidence")
            record = json.loads(preview.stdout)["record"] if more else json.loads(preview.stdout)
            assert (record["summary"], record["gates"]["governance"]) == ("Added a comment", "na:read-only")
        good(daemon.symbi(*write, *closed, "--evidence", "shown.json"))
        good(daemon.symbi(*write, *closed, "--evidence", "na:nothing to show", "--source", "https://example.com/1"))
        items = json.loads(good(daemon.symbi("memory", "list", "--json")))["items"]
        assert [item["provenance"]["sources"] for item in items] == [
            ["https://example.com/1"],
            [str(tmp_path / "shown.json")],
        ]
        exported = good(daemon.symbi("memory", "export"))
        refused(
            daemon.symbi("memory", "import", "-", "--agent", "reviewer", "--memory", "audit", input=exported), 1, "gate"
        )
        again = ("memory", "import", "-", "--agent", "reviewer", "--memory", "audit", *closed[:4])
        good(daemon.symbi(*again, "--evidence", "na:imported", input=exported))
        plain = ("memory", "write", "reviewer", "A note", "--memory", "notes")
        refused(daemon.symbi(*plain, *closed[:2]), 2, "the memory notes has no gates", "leave out governance")


def test_a_purge_asks_names_what_goes_and_deletes_it(run: Symbi) -> None:
    good(run("memory", "write", "reviewer", "one"))
    good(run("memory", "write", "reviewer", "two", "--type", "episode"))
    asked = run("memory", "purge", "reviewer")
    refused(asked, 2, "2 files with 2 items in the memory notes", "--yes")
    assert "2 files with 2 items" in good(run("memory", "purge", "reviewer", "--yes"))
    assert json.loads(good(run("memory", "list", "--json")))["items"] == []
    assert good(run("memory", "search", "reviewer", "one two")) == "Nothing was found.\n"
    assert good(run("memory", "purge", "reviewer", "--yes")) == "reviewer has no items\n"


def test_a_person_says_yes_or_no_to_a_purge(daemon: Daemon) -> None:
    good(daemon.symbi("memory", "write", "reviewer", "to be purged"))
    said = terminal(daemon, "memory", "purge", "reviewer", typed="n\n")
    assert "Delete everything of reviewer (" in said
    assert "nothing was deleted" in said
    assert "to be purged" in good(daemon.symbi("memory", "list"))
    assert "deleted everything of reviewer" in terminal(daemon, "memory", "purge", "reviewer", typed="y\n")
    assert "to be purged" not in good(daemon.symbi("memory", "list"))


def test_an_embedding_that_is_away_is_told(root: Path) -> None:
    write_program(root, PROGRAM.replace("embedding hashing\n}", 'embedding ollama { url "http://127.0.0.1:1" }\n}', 1))
    good(symbi("memory", "write", "reviewer", "Bluebird flies", root=root))
    found = symbi("memory", "search", "reviewer", "bluebird", root=root)
    assert "Bluebird flies" in good(found)
    assert "note: searched by keyword only: the embedding ollama is unavailable" in found.stderr


def test_a_damaged_index_is_made_anew_by_the_next_search(run: Symbi, tmp_path: Path) -> None:
    good(run("memory", "write", "reviewer", "Bluebird flies at dawn"))
    assert "Bluebird" in good(run("memory", "search", "reviewer", "bluebird"))
    for file in (tmp_path / ".symbi" / "index").glob("*.db"):
        file.write_bytes(b"garbage" * 1000)
    assert "Bluebird" in good(run("memory", "search", "reviewer", "bluebird"))


def test_without_a_daemon_the_command_itself_says_that_an_index_was_damaged(root: Path) -> None:
    good(symbi("memory", "write", "reviewer", "Bluebird flies at dawn", root=root))
    for file in (root / ".symbi" / "index").glob("*.db"):
        file.write_bytes(b"garbage" * 1000)
    found = symbi("memory", "search", "reviewer", "bluebird", root=root)
    assert "Bluebird" in good(found)
    assert "index_rebuilt" in found.stderr
    assert symbi("memory", "search", "reviewer", "bluebird", root=root).stderr == ""


def test_records_are_not_purged_nor_compacted(run: Symbi) -> None:
    good(run("memory", "write", "auditor", "kept for good"))
    refused(run("memory", "purge", "auditor", "--yes"), 1, "never deleted", "delete its folder by hand")
    refused(run("memory", "compact", "auditor"), 1, "records", "compact")
    good(run("memory", "write", "reviewer", "note"))
    good(run("memory", "write", "reviewer", "note", "--memory", "audit"))
    refused(run("memory", "purge", "reviewer", "--yes"), 1, "never deleted", "name the memory to purge: notes")
    done = run("memory", "compact", "--all")
    assert good(done) == "reviewer in notes: 0 items promoted; expired logs or entries deleted: 0\n"
    assert "the memory audit is not compacted" in done.stderr


def test_compaction_puts_what_is_for_the_long_term_where_it_stays(run: Symbi) -> None:
    text = "Meeting\n- [fact] The office closes at six\n- small talk"
    good(run("memory", "write", "reviewer", text, "--type", "episode"))
    assert (
        good(run("memory", "compact", "reviewer"))
        == "reviewer in notes: 1 item promoted; expired logs or entries deleted: 0\n"
    )
    assert (
        good(run("memory", "compact", "reviewer"))
        == "reviewer in notes: 0 items promoted; expired logs or entries deleted: 0\n"
    )
    assert "## Facts\n- The office closes at six" in good(run("memory", "inspect", "reviewer"))


def test_an_agent_whose_files_cannot_be_read_is_named_once_and_keeps_no_other_from_compaction(
    run: Symbi, tmp_path: Path
) -> None:
    good(run("memory", "write", "reviewer", "Title\n- [fact] It is for the long term", "--type", "episode"))
    folder = tmp_path / "notes" / "another" / "memory.md"
    folder.mkdir(parents=True)
    (folder.parent / "logs").mkdir()
    (folder.parent / "logs" / "2026-02-14.md").write_text("# Log\n\n## 09:00 — Title\n- [fact] Waits\n", "utf-8")
    done = run("memory", "compact", "--all")
    refused(done, 1, "reviewer in notes: 1 item promoted", "not changed: cannot read")
    assert done.stderr.count(str(folder)) == 1
    assert run("memory", "verify").stdout.count(str(folder)) == 1
    for command in (("memory", "stats"), ("readiness",)):
        done = run(*command)
        assert "cannot read" in done.stdout + done.stderr
        assert f"{folder}: cannot read" not in done.stdout + done.stderr, "the message names it"


def test_an_index_that_was_lost_is_built_again(run: Symbi) -> None:
    good(run("memory", "write", "reviewer", "Bluebird flies at dawn"))
    assert good(run("memory", "reindex", "reviewer")) == "notes: 1 item of 1 part indexed, 1 of them by meaning\n"
    answer = json.loads(good(run("memory", "reindex", "--json")))
    assert {row["memory"]: row["items"] for row in answer["memories"]} == {"notes": 1, "audit": 0}
    assert "Bluebird" in good(run("memory", "search", "reviewer", "bluebird"))


def test_verify_ends_with_1_when_something_is_not_as_it_was_written(run: Symbi, tmp_path: Path) -> None:
    good(run("memory", "write", "auditor", "kept for good"))
    good(run("memory", "write", "reviewer", "fine"))
    good(run("memory", "verify"))
    (record,) = (tmp_path / "audit" / "auditor").glob("2*.json")
    record.chmod(0o600)
    record.write_text(record.read_text().replace("kept for good", "kept for bad!"))
    done = run("memory", "verify")
    refused(done, 1, "wrong  auditor in audit", "good  reviewer in notes", record.name)
    assert json.loads(run("memory", "verify", "--json").stdout)["good"] is False
    exported = run("memory", "export")
    refused(exported, 1, "exported 1 item", f"not exported: {record}: its checksum")
    assert run("memory", "export", "reviewer").returncode == 0
    assert run("memory", "verify", "reviewer").returncode == 0


def test_inspect_is_byte_for_byte_when_piped_and_laid_out_on_a_terminal(daemon: Daemon) -> None:
    good(daemon.symbi("memory", "write", "reviewer", "A **bold** fact", "--tag", "x"))
    file = daemon.root / "notes/reviewer/memory.md"
    assert file.read_text() in good(daemon.symbi("memory", "inspect", "reviewer"))
    shown = terminal(daemon, "memory", "inspect", "reviewer", NO_COLOR="", COLORTERM="truecolor")
    assert "\x1b[1mbold\x1b[0m" in shown
    assert "<!--" not in shown
    assert "(no episodes on that day)" in daemon.symbi("memory", "inspect", "reviewer", "--day", "2020-02-02").stderr
    answer: dict[str, Any] = json.loads(good(daemon.symbi("memory", "inspect", "reviewer", "--json")))
    assert answer["memory"]["text"] == file.read_text()


def test_the_words_of_the_query_are_marked_on_a_terminal(daemon: Daemon) -> None:
    good(daemon.symbi("memory", "write", "reviewer", "Deployments happen on Tuesdays"))
    shown = terminal(daemon, "memory", "search", "reviewer", "when on tuesday is it that we deploy", NO_COLOR="")
    assert "\x1b[32m\x1b[1mDeployments\x1b[0m happen on \x1b[32m\x1b[1mTuesdays\x1b[0m" in shown


def test_of_a_long_text_the_lines_around_the_words_are_shown(daemon: Daemon) -> None:
    text = "\n".join(["Minutes", *(f"- item {number}" for number in range(40)), "- the zebra crossed", "- the end"])
    good(daemon.symbi("memory", "write", "auditor", "-", input=text))
    # Its rank depends on its vector, which is computed in the background.
    hits = good(daemon.symbi("memory", "search", "auditor", "zebra")).split("\n\n")
    shown = next(hit for hit in hits if "zebra" in hit).splitlines()
    assert "    - the zebra crossed" in shown
    assert len(shown) <= 10
    assert "    …" in shown


def test_help_of_the_group_names_every_command_and_loads_nothing_heavy(daemon: Daemon) -> None:
    shown = good(daemon.symbi("memory", "--help"))
    for name in ("search", "list", "show", "inspect", "stats", "write", "compact", "purge", "reindex", "verify"):
        assert f"\n  {name} " in shown
    assert "\n  export " in shown
    assert "\n  import " in shown
