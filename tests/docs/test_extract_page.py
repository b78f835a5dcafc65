"""The page on extracting definitions: its examples run and print the shown output."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

_PAGE = Path(__file__).parents[2] / "docs/extract.md"
_EXAMPLE = re.compile(r"```python\n(?P<code>.*?)```\n\n```\n(?P<printed>.*?)```", re.DOTALL)


def test_the_examples_print_what_the_page_shows() -> None:
    names: dict[str, Any] = {}
    examples = list(_EXAMPLE.finditer(_PAGE.read_text(encoding="utf-8")))
    assert len(examples) == 2
    for example in examples:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(example["code"], names)
        assert printed.getvalue() == example["printed"]
