"""`symbi token`: bearer tokens for `/v1` on the operators' listener."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import click

from runtime.cli.terminal.screen import echo
from runtime.cli.tool_command import Rows, Sentence, tool_command


@click.group()
def token() -> None:
    """Create, list and revoke bearer tokens, with which users call `/v1` on the operators' listener."""


_command = partial(tool_command, group=token)


def _print_created(answer: Mapping[str, Any]) -> None:
    until = f"until {answer['expires_at']}" if answer["expires_at"] else "until it is revoked"
    # Only the token goes to standard output, for scripts.
    echo(f"token {answer['id']} of {answer['user']}, valid {until}; it is not shown again:", err=True)
    echo(answer["token"])


_command(
    "token_create",
    "create",
    short="Create a token and print it.",
    doc="Create a token and print it. It is shown only once: only its hash is stored.",
    options={"tools": "--tools GROUP[,GROUP]...", "expires": "--expires DURATION"},
    user="The user of the token.  [default: owner]",
    view=_print_created,
)
_command(
    "token_list",
    "list",
    short="List tokens, valid or not, without their values.",
    doc="List every token, valid or not, without its value.",
    user="Only tokens of this user.",
    view=Rows(
        "tokens",
        {
            "id": "id",
            "user": "user",
            "label": "label",
            "scopes": "scopes",
            "tools": lambda row: "all" if row["tools"] is None else row["tools"],
            "state": "state",
            "created": "created_at",
            "expires": lambda row: row["expires_at"] or "never",
            "used": lambda row: row["used_at"] or "never",
        },
        empty="There are no tokens; `symbi token create` creates one.",
    ),
)
_command(
    "token_revoke",
    "revoke",
    short="Revoke a token.",
    doc="Revoke the token ID. ID is an id, its unique prefix, or the token itself. Every daemon refuses it at once.",
    arguments={"token_id": "ID"},
    view=Sentence("revoked {id}"),
)
