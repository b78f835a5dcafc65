"""The names of aiohttp that its documentation does not promise: they exist, and stand in one file."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import aiohttp
from aiohttp import web

from runtime.http.aiohttp_private import HANDLER, REQUEST, RUNNER, SERVER

ROOT = Path(__file__).parents[3]
FILE = ROOT / "runtime" / "http" / "aiohttp_private.py"
PRIVATE_MODULES = {"base_protocol", "http", "http_exceptions", "http_parser", "http_writer", "web_protocol"}
OWNERS = {web.RequestHandler: HANDLER, web.BaseRequest: REQUEST, web.Server: SERVER, web.AppRunner: RUNNER}


def test_each_name_exists_in_the_installed_version() -> None:
    made = {
        web.BaseRequest: web.BaseRequest.__init__.__code__.co_names,
        web.Server: web.Server.__init__.__code__.co_names,
    }
    missing = {
        (owner.__name__, name)
        for owner, names in OWNERS.items()
        for name in names
        if not hasattr(owner, name) and name not in made.get(owner, ())
    }
    assert missing == set()


def test_no_other_file_names_them() -> None:
    underscored = {name for names in (HANDLER, SERVER, RUNNER) for name in names if name.startswith("_")} - {"_loop"}
    found = []
    for path in (ROOT / "runtime").rglob("*.py"):
        # Elsewhere only files that mention aiohttp are parsed: all of them would take seconds.
        text = path.read_text(encoding="utf-8")
        if path == FILE or (path.parent != FILE.parent and "aiohttp" not in text):
            continue
        for node in ast.walk(ast.parse(text)):
            private = isinstance(node, ast.Attribute) and path.parent == FILE.parent and node.attr in underscored
            module = (node.module or "").partition(".") if isinstance(node, ast.ImportFrom) else ("", "", "")
            if private or (module[0] == "aiohttp" and module[2] in PRIVATE_MODULES):
                found.append(f"{path.relative_to(ROOT)}: {ast.unparse(node)}")
    assert found == []


def test_aiohttp_is_pinned_to_its_minor_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [pin] = [each for each in project["dependencies"] if each.startswith("aiohttp>")]
    lower, upper = pin.removeprefix("aiohttp>=").split(",<")
    major, minor = map(int, lower.split("."))
    assert upper == f"{major}.{minor + 1}"
    assert aiohttp.__version__.startswith(f"{lower}.")
