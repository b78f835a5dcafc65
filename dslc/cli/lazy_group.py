"""A click group that imports each command when it is called, for a fast start."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


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
