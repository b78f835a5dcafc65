"""Text that was forgotten, purged or changed is in no file of the root any more, whichever store had it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.lanes import LONG
from tests.runtime.cli.memory.test_commands import good
from tests.runtime.daemon.running import Daemon, contents, running, symbi, until, write_program

PROGRAM = """\
memory notes {
    path      "data/notes"
    embedding hashing
}
memory ledger {
    store     records
    path      "data/ledger"
    embedding hashing
}
memory papers {
    store     collection
    embedding hashing
}
agent scribe { memory notes }
agent edited { memory notes }
agent clerk { memory ledger }
"""


def left(root: Path, *words: str) -> list[str]:
    """Return the words that occur in a file below the root, also as the index spells them."""
    found: set[str] = set()
    for _, content in contents(root):
        found |= {word for word in words if word.encode() in content.lower()}
    return sorted(found)


def pushed(daemon: Daemon, text: str, *more: str) -> str:
    """Push a text to the collection and return its id."""
    good(daemon.symbi("push", "-", "--collection", "papers", *more, input=text))
    hits = json.loads(good(daemon.symbi("collection", "search", text, "--collection", "papers", "--json")))["hits"]
    return str(next(hit["memory_id"] for hit in hits if hit["text"] == text))


@LONG
def test_what_is_forgotten_is_overwritten_in_every_kind_of_memory(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere.md"
    root.mkdir()
    write_program(root, PROGRAM)
    with running(root, "program") as daemon:
        for agent, word in (("scribe", "xylographer"), ("edited", "plumbago"), ("clerk", "heliotropium")):
            good(daemon.symbi("memory", "write", agent, f"The {word} stays no longer"))
            assert word in good(daemon.symbi("memory", "search", agent, word))
        forgotten = pushed(daemon, "A medical record of quetzalcoatl", "--tag", "tagaxolotl")
        updated = pushed(daemon, "The vault combination is okapi")
        elsewhere.write_text("The first draft says cinnabar.\n")
        good(daemon.symbi("push", str(elsewhere), "--collection", "papers"))
        for source in ("tapir", "capybara"):
            shared = pushed(daemon, "What two files say", "--source-uri", f"file:///{source}.md")
        noted = [
            json.loads(good(daemon.symbi("memory", "write", "edited", f"The {word} stays no longer", "--json")))
            for word in ("wolframite", "galena")
        ]
        # The texts of a collection are in no file in clear while they are remembered.
        assert left(root, "quetzalcoatl", "okapi", "cinnabar") == []

        good(daemon.symbi("memory", "purge", "scribe", "--yes"))
        (memory,) = (root / "data/notes/edited").glob("memory.md")
        memory.write_text(memory.read_text().replace("plumbago", "gneiss"))
        shutil.rmtree(root / "data/ledger/clerk")
        good(daemon.symbi("memory", "forget", noted[0]["item"]["memory_id"], "--yes"))
        good(daemon.symbi("memory", "edit", noted[1]["item"]["memory_id"], "Something else is there"))
        good(daemon.symbi("collection", "forget", forgotten, "--yes"))
        good(daemon.symbi("collection", "forget", shared, "--yes"))
        good(daemon.symbi("collection", "update", updated, "The vault combination was changed"))
        elsewhere.write_text("The second draft says basalt.\n")
        good(daemon.symbi("push", str(elsewhere), "--collection", "papers"))

        words = (
            *("xylograph", "plumbago", "heliotropium", "wolframit", "galena"),
            *("quetzalcoatl", "tagaxolotl", "okapi", "cinnabar", "tapir", "capybara"),
        )
        writes = 0

        def gone() -> bool:
            nonlocal writes
            writes += 1
            good(daemon.symbi("memory", "write", "edited", f"Written meanwhile, number {writes}"))
            good(daemon.symbi("push", "-", "--collection", "papers", input=f"Pushed meanwhile, number {writes}"))
            return not left(root, *words)

        until(gone, 120, "the end of the words")
        assert "gneiss" in good(daemon.symbi("memory", "search", "edited", "gneiss"))
        good(daemon.symbi("memory", "write", "edited", "The malachite stays no longer"))
        assert "malachite" in good(daemon.symbi("memory", "search", "edited", "malachite"))
        good(daemon.symbi("memory", "purge", "edited", "--yes"))
        daemon.kill()
    with running(root, "program"):
        until(lambda: not left(root, "malachite"), 120, "the end of what was forgotten before the kill")
    good(symbi("memory", "write", "scribe", "The obsidian stays no longer", root=root))
    assert "obsidian" in good(symbi("memory", "search", "scribe", "obsidian", root=root))
    good(symbi("memory", "purge", "scribe", "--yes", root=root))
    assert left(root, "obsidian", *words) == []
