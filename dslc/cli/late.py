"""A group of commands that are imported when they are called, so that one does not pay for the others."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

import click


class LateGroup(click.Group):
    """`places`: every command in the order of the help, and where it is, as `module:name`."""

    places: Mapping[str, str]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            # What click compares with are the commands that are loaded, of which there are none.
            raise click.NoSuchCommand(error.command_name, possibilities=self.places, ctx=ctx) from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.places:
            return None
        module, _, name = self.places[cmd_name].partition(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command
