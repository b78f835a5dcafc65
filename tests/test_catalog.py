"""The committed catalog agrees with the runtime's tables, and the examples compile with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from runtime.generate.catalog import FILE, catalog, render
from runtime.tools import TOOLS

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_the_committed_catalogue_is_what_the_tables_say() -> None:
    assert FILE.read_text(encoding="utf-8") == render(), "run `make catalog`"


def test_the_examples_have_no_problems() -> None:
    dslc = Path(sys.executable).parent / "dslc"
    done = subprocess.run([dslc, "check", "--deny-warnings", EXAMPLES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "no problems" in done.stdout


def test_tools_for_people_are_not_in_the_catalog() -> None:
    named = {row["name"] for row in catalog()["families"]["tool"]}
    assert named == {name for name, tool in TOOLS.items() if not tool.people} | {"done"}
    assert "agent_config_edit" in TOOLS.keys() - named
