"""`symbi agent context`: what the context of an agent is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runtime.cli.terminal.context_parts import print_parts
from runtime.cli.terminal.screen import echo, echo_text, rule
from runtime.cli.tool_command import tool_command


def _print_text(answer: Mapping[str, Any]) -> None:
    for message in answer["messages"]:
        echo(f"{rule(2)} {message['role']}", bold=True)
        echo_text(message["content"])


context = tool_command(
    "agent_context_preview",
    "context",
    short="Show what the context of an agent is made of.",
    doc="""Show the parts of the context with which AGENT would answer now, and how many tokens each has.

    No model is asked. The tokens are counted as they are for the model's window.
    """,
    arguments={"agent": "[AGENT]"},
    options={"thread": "--thread ID"},
    user="For this user.  [default: owner]",
    views={"--text": ("Print the whole text that the model would read.", _print_text)},
    view=print_parts,
)
