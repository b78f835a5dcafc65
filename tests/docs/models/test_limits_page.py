"""The section about the storage of users has the figures of the tiers, and its commands run."""

from __future__ import annotations

import re
from pathlib import Path

from dslc.blocks.values.quantity import format_size
from runtime.cli.user import user
from runtime.models.budgets.limits import LIMITS
from runtime.tables.quota import TIERS, Quota
from tests.docs.shell import typed
from tests.runtime.daemon.running import running, write_program

PAGE = (Path(__file__).parents[3] / "docs" / "limits.md").read_text(encoding="utf-8")
SECTION = PAGE.split("\n## Storage of users\n")[1].split("\n## ")[0]


def test_the_figures_of_the_tiers_are_on_the_page() -> None:
    def row(tier: str, quota: Quota) -> tuple[str, ...]:
        counts = ("unlimited" if each is None else f"{each:,}" for each in (quota.tables, quota.rows))
        return (tier, *counts, format_size(quota.storage), format_size(quota.texts))

    rows = re.findall(r"^\| `(\w+)` \| (\S+) \| (\S+) \| ([^|]+) \| ([^|]+) \|$", SECTION, re.MULTILINE)
    assert rows == [row(tier, quota) for tier, quota in TIERS.items()]


def test_its_commands_run_and_have_every_option_that_is_no_limit_of_agents(tmp_path: Path) -> None:
    write_program(tmp_path)
    with running(tmp_path, "program"):
        for command in re.findall(r"^\$ (symbi .*)$", SECTION, re.MULTILINE):
            done = typed(command, tmp_path)
            assert done.returncode == 0, (command, done.stdout, done.stderr)
    options = {option for each in user.commands["set"].params if each.name not in LIMITS for option in each.opts}
    for option in options - {"--root", "name"}:
        assert option in SECTION, option
