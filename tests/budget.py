"""Physical lines of Python of each package against its maximum in `budget.toml`: `python -m tests.budget` prints the
table, and exits with 1 if a package has more."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parent.parent
FILE = Path(__file__).with_suffix(".toml")


def lines_by_package(packages: Mapping[str, int]) -> Counter[str]:
    """Return the lines of each package, under the longest name in `packages` that its path begins with. Files of no
    package are counted under their folder."""
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    lines: Counter[str] = Counter()
    for path in map(Path, listed.stdout.splitlines()):
        if (ROOT / path).exists():
            folders = [str(folder) for folder in path.parents]
            package = next((folder for folder in folders if folder in packages), folders[0])
            lines[package] += (ROOT / path).read_bytes().count(b"\n")
    return lines


def main() -> None:
    """Print the table."""
    budget: dict[str, int] = tomllib.loads(FILE.read_text(encoding="utf-8"))["lines"]
    lines = lines_by_package(budget)
    table = Table("package", box=None, pad_edge=False)
    for heading in ("lines", "budget", "left"):
        table.add_column(heading, justify="right")
    for package in sorted(budget.keys() | lines.keys()):
        most = budget.get(package, 0)
        left = most - lines[package]
        table.add_row(package, f"{lines[package]:,}", f"{most:,}", f"{left:,}", style="red" if left < 0 else None)
    for top in ("runtime", "dslc", "tests"):
        total, most = (
            sum(number for name, number in each.items() if name.partition("/")[0] == top) for each in (lines, budget)
        )
        table.add_row(f"all of {top}", f"{total:,}", f"{most:,}", f"{most - total:,}", style="bold")
    Console(width=100).print(table)
    over = sorted(package for package, number in lines.items() if number > budget.get(package, 0))
    if over:
        sys.exit(f"more lines than tests/budget.toml allows: {', '.join(over)}: remove some, or argue for more there")


if __name__ == "__main__":
    main()
