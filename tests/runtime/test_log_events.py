"""Log events have names that an alert can match."""

from __future__ import annotations

import ast
import re
from collections.abc import Set
from pathlib import Path

ROOT = Path(__file__).parents[2]
LEVELS = frozenset({"debug", "info", "warning", "error", "exception", "critical"})


def test_each_log_event_is_a_name_and_the_rest_is_in_fields() -> None:
    events = [(path, call) for path in (ROOT / "runtime").rglob("*.py") for call in _log_calls(path)]
    assert len(events) > 50
    others = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for path, call in events
        if not isinstance(call.args[0], ast.Constant) or not re.fullmatch(r"[a-z][a-z0-9_]*", str(call.args[0].value))
    ]
    assert others == []


def _log_calls(path: Path) -> list[ast.Call]:
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    named = {
        target.id
        for node in nodes
        if isinstance(node, ast.Assign) and _is_logger(node.value, frozenset())
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return [
        node
        for node in nodes
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in LEVELS
        and _is_logger(node.func.value, named)
        and node.args
    ]


def _is_logger(node: ast.expr, named: Set[str]) -> bool:
    """True for a logger by one of these names, for a new one, and for one with bound fields."""
    if isinstance(node, ast.Name):
        return node.id in named
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in {"get_logger", "bind"}
    )
