"""A click group that imports each command when it is called, for a fast start."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from io import TextIOWrapper
from typing import Any, TypeVar

import click

FC = TypeVar("FC", bound="Callable[..., Any] | click.Command")


def escape_unencodable() -> None:
    """Escape what the encoding of standard output does not have, such as latin-1, in place of failing."""
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def version_option(name: str) -> Callable[[FC], FC]:
    """Return the option `--version` of the program `name`, which prints version and commit."""

    def show(_: click.Context, __: click.Parameter, asked: object) -> None:
        if asked:
            from dslc.version import full

            click.echo(f"{name} {full()}")
            raise click.exceptions.Exit(0)

    help_ = "Print version and commit."
    return click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=show, help=help_)


class LazyGroup(click.Group):
    """A group of commands given by location, in the order of the help."""

    def __init__(
        self, *args: Any, places: Mapping[str, str], summaries: Mapping[str, str] | None = None, **kwargs: Any
    ) -> None:
        """`places`: the location of every command, `module:name`. `summaries`: the lines of the help by command, so
        that the help does not import commands; by default they are read from the commands."""
        super().__init__(*args, **kwargs)
        self._places = places
        self._summaries = summaries

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            # click compares the name with the loaded commands, of which there are none.
            raise click.NoSuchCommand(error.command_name, possibilities=self._places, ctx=ctx) from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._places:
            return None
        module, _, name = self._places[cmd_name].partition(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self._summaries is None:
            super().format_commands(ctx, formatter)
            return
        with formatter.section("Commands"):
            formatter.write_dl(list(self._summaries.items()))
