"""`symbi agent config`: with and without a daemon."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import get_args

from dslc.blocks.agent import UserSetting
from dslc.blocks.values.types import SMALLEST_WINDOW
from tests.runtime.cli.agent.test_block import Symbi
from tests.runtime.cli.memory.test_commands import good
from tests.runtime.daemon.running import running, symbi, write_program

PROGRAM = """\
memory notes { path "notes" embedding hashing }
model fast { service ollama }
model strong { service ollama offered true }
agent assistant { memory notes model fast main true instruction "Help." lock [enabled] }
agent other { memory notes model fast }
"""


def shown(config: Symbi, *arguments: str) -> dict[str, tuple[str, str]]:
    """Return value and source of each setting in the table."""
    lines = [line.split("  ") for line in good(config("show", *arguments)).splitlines()]
    rows = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    return {row[0]: (row[1], row[2]) for row in rows if len(row) == 3}


def all_of_it(config: Symbi, root: Path) -> None:
    before = shown(config)
    assert before["model"] == ("fast", "the program")
    assert before["enabled"] == ("true", "the program, locked")
    assert "strong" in good(config("set", "assistant", "model", "strong"))
    good(config("set", "assistant", "max_tokens", "16000"))
    good(config("set", "assistant", "compaction_threshold", "0.5"))
    good(config("set", "assistant", "preferences.language", "Italian"))
    good(config("set", "assistant", "preferences.style", "brief"))
    (root / "prompt.md").write_text("You teach.\n")
    good(config("set", "assistant", "system_prompt", "@prompt.md"))
    assert shown(config, "assistant") == {
        "setting": ("value", "from"),
        "enabled": ("true", "the program, locked"),
        "model": ("strong", "the user"),
        "max_tokens": ("16000", "the user"),
        "compaction_threshold": ("0.5", "the user"),
        "system_prompt": ("You teach.", "the user"),
        "preferences": ('{"language": "Italian", "style": "brief"}', "the user"),
    }
    assert shown(config, "other")["model"] == ("fast", "the program")
    good(config("unset", "assistant", "model", "preferences.language", "compaction_threshold"))
    done = json.loads(good(config("show", "--json")))
    assert done["overridden"] == ["max_tokens", "system_prompt", "preferences"]
    assert done["preferences"] == {"style": "brief"}
    good(config("set", "assistant", "preferences", '{"language": "German"}'))
    good(config("unset", "assistant", "preferences", "max_tokens", "system_prompt"))
    assert shown(config) == before
    for arguments, why in (
        (
            ("set", "assistant", "enabled", "false"),
            f"enabled: `lock` in the block `agent assistant` ({root}/program/hooks.symbiont:4)",
        ),
        (("set", "assistant", "enabled", "false"), "the author of the program can remove it from `lock`"),
        (("set", "assistant", "enabled", "perhaps"), "is no number, true, false"),
        (("set", "assistant", "model", "stong"), "did you mean strong"),
        (("set", "assistant", "max_tokens", "many"), "is no number"),
        (("set", "assistant", "max_tokens", "1"), "max_tokens: input should be greater than or equal to 1024"),
        (("set", "assistant", "preferences", '{"a": {"b": 1}}'), "preferences.a: neither a text of at most 2,000"),
        (("set", "assistant", "modle", "fast"), "did you mean model"),
        (("set", "assistant", "preferences", "x"), "is no number, true, false or JSON object"),
        (("set", "assistant", "system_prompt", "@nothing.md"), "no such file"),
        (("unset", "assistant", "colour"), "no setting"),
        (("show", "asistant"), "did you mean assistant"),
    ):
        failed = config(*arguments)
        assert failed.returncode in {1, 2}, arguments
        assert why in failed.stderr, (arguments, failed.stderr)
        assert "Traceback" not in failed.stderr


def test_settings_are_shown_changed_and_taken_back_with_a_daemon(tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM)
    with running(tmp_path, "program") as daemon:
        all_of_it(partial(daemon.symbi, "agent", "config"), tmp_path)


def test_help_has_every_setting_and_its_bounds() -> None:
    said = symbi("agent", "config", "set", "--help", root=Path.cwd()).stdout
    assert all(f"\n  {name} " in said for name in get_args(UserSetting))
    assert f"at least {SMALLEST_WINDOW}" in said
