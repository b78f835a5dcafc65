"""The page of deliveries: its commands and options exist, and its program compiles."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import get_args

import click
import pytest

from dslc.catalog import Catalog
from dslc.compiler import analyse
from dslc.source import Source
from runtime.cli.webhook import webhook
from runtime.webhooks.deliveries.queries import DeliveryState
from runtime.webhooks.providers import PROVIDERS
from runtime.webhooks.providers.samples.sample import names
from tests.cases import each_case

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "deliveries.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ symbi webhook (.*)$", PAGE, re.MULTILINE)


@each_case("line", COMMANDS)
def test_every_command_on_the_page_is_one(line: str) -> None:
    name, *arguments = shlex.split(line.partition(" > ")[0])
    command = webhook.commands[name]
    # Raises for an option or a value that the command does not accept.
    command.make_context(name, arguments, parent=click.Context(webhook))


def test_every_state_and_every_provider_with_samples_is_named() -> None:
    assert list(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == list(get_args(DeliveryState))
    assert all(PROVIDERS[name].title in PAGE for name in names())


def test_its_program_compiles_without_a_word() -> None:
    [program] = re.findall(r"```symbiont\n(.*?)```", PAGE, re.DOTALL)
    assert analyse([Source("page", program)], Catalog.installed()).diagnostics == ()


@pytest.mark.parametrize("page", ["deliveries.md", "scale.md"])
def test_links_lead_somewhere(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    assert all((DOCS / target).exists() for target in re.findall(r"\]\(([^)#]+)\)", text))
    assert all((DOCS.parent / path).exists() for path in re.findall(r"`(tests/[\w/.]+)`", text))
