"""Command line and output of the benchmarks."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Ratio:
    """A ratio of two figures of one run. `aim`: the value that it should have."""

    name: str
    value: float
    aim: str


def command_line(module: str, description: str | None, **numbers: tuple[int, str]) -> argparse.ArgumentParser:
    """Return the parser of a benchmark: `--json`, and an option for each of `numbers` (default, help)."""
    parser = argparse.ArgumentParser(prog=f"python -m bench.{module}", description=description)
    parser.add_argument("--json", action="store_true", help="print JSON")
    for name, (default, text) in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{text} (default {default:,})")
    return parser


def show(result: T, table: Callable[[T], str], *, as_json: bool) -> None:
    """Print a result, as JSON or with `table`."""
    print(json.dumps(result, indent=2, default=vars) if as_json else table(result))


def ratio_table(ratios: Iterable[Ratio]) -> list[str]:
    """Return a Markdown table after an empty line."""
    rows = [f"| {ratio.name} | **{ratio.value:.2f}** | {ratio.aim} |" for ratio in ratios]
    return ["", "| ratio | | aim |", "|---|---:|---|", *rows]
