"""The page of secrets: its backends, commands and variables exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click

from runtime.cli.webhook import webhook
from runtime.secrets import BACKENDS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "secrets.md").read_text(encoding="utf-8")


def test_every_backend_is_on_the_page_and_no_other() -> None:
    assert set(re.findall(r"^\| `secret://(\w+)/", PAGE, re.MULTILINE)) == set(BACKENDS)


def test_every_variable_on_the_page_is_read_and_every_one_that_is_read_is_on_it() -> None:
    code = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "runtime/secrets/vault").glob("*.py"))
    read = set(re.findall(r'"((?:SYMBIONT_)?VAULT_[A-Z_]+)"', code))
    read |= {f"{name}_FILE" for name in re.findall(r'_value_or_file\(environ, "(\w+)"\)', code)}
    assert set(re.findall(r"`((?:SYMBIONT_)?VAULT_[A-Z_]+)`", PAGE)) == read


def test_every_command_on_the_page_is_one() -> None:
    for line in re.findall(r"^\$ symbi webhook (.*)$", PAGE, re.MULTILINE):
        name, *arguments = shlex.split(line)
        webhook.commands[name].make_context(name, arguments, parent=click.Context(webhook))
