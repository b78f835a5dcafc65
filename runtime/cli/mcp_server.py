"""`symbi mcp-server`: the servers of the Model Context Protocol whose tools agents use."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from dslc.blocks.values.quantity import format_duration
from runtime.cli.client import RootClient, find_root
from runtime.cli.terminal.output import confirm, count_text, json_option, local_time, root_option
from runtime.cli.terminal.progress import no_progress
from runtime.cli.terminal.screen import echo, echo_json, echo_text, json_escaped, one_line
from runtime.cli.tool_command import Rows, tool_command

_INDENT = "    "


@click.group("mcp-server")
def mcp_server() -> None:
    """List, approve and test the MCP servers of the program, whose tools agents use.

    A server that a program declares is not started before `symbi mcp-server approve NAME`, and not any more when its
    command, its variables or its address change.
    """


tool_command(
    "mcp_server_list",
    "list",
    short="List the servers of the program, and the state of each.",
    doc="""List the servers of the program, and the state of each.

    \b
    unapproved  nobody has approved it: it is not started
    changed     its block is not as it was approved: it is not started
    no secret   a secret of its block is missing: it is not started
    connecting  it has not answered yet, or no daemon runs agents
    connected   agents use its tools
    away        it does not answer, and is tried again
    """,
    view=Rows(
        "servers",
        {
            "server": "server",
            "kind": "kind",
            "state": "state",
            "tools": "offered",
            "note": lambda row: _remarks(row) or None,
        },
        empty="The program declares no servers.",
    ),
    group=mcp_server,
)


def _print_tools(answer: Mapping[str, Any]) -> None:
    for tool in answer["tools"]:
        _print_tool(tool)
    if not answer["tools"]:
        name, state = answer["server"], answer["state"]
        what = f"; `symbi mcp-server approve {name}`" if state in ("unapproved", "changed") else ""
        echo(f"no tools of {name} are offered: it is {state}{what}")
    for each in answer["not_offered"]:
        what = f"{each['name']}: {each['reason']} since it was approved" if each["name"] else each["reason"]
        echo(f"not offered: {what}", fg="yellow")


tool_command(
    "mcp_server_show",
    "tools",
    short="Show the tools of the server NAME.",
    doc="Show the tools of the server NAME that agents may call, and those that are not offered, with the reason.",
    arguments={"server": "NAME"},
    view=_print_tools,
    group=mcp_server,
)


def _print_test(answer: Mapping[str, Any]) -> None:
    says = f" ({answer['says']})" if answer["says"] else ""
    after = format_duration(answer["seconds"])
    echo(f"{answer['server']}{says} answers: {count_text(answer['tools'], 'tool')} after {after}")
    for line in (*answer["differences"], *answer["refused"]):
        echo(f"not offered: {line}", fg="yellow")


tool_command(
    "mcp_server_test",
    "test",
    short="Connect to the approved server NAME and count its tools.",
    doc="""Start the approved server NAME, or connect to it, count its tools, and end it again.

    Exit code 0 if it answers, 1 if not, and 2 if it is not approved. Tools that have changed are named.
    """,
    arguments={"server": "NAME"},
    view=_print_test,
    group=mcp_server,
)


@mcp_server.command(short_help="Approve the server NAME and its tools.")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@root_option
@json_option
def approve(name: str, yes: bool, root: Path | None, as_json: bool) -> None:
    """Show what the server NAME is (command, variables or address), start it, show its tools, and approve both.

    Only what was approved is started, and only tools that are as they were approved are offered to agents. With
    another approval only the differences are shown.
    """
    with RootClient(find_root(root)) as client:
        shown = client.call("mcp_server_show", {"server": name})
        if not as_json:
            _print_block(shown)
        if not yes:
            confirm(f"{_start_text(shown)} to list its tools?", undone="nothing was started or approved")
        seen = {"server": name, "digest": shown["digest"]}
        found = client.call("mcp_server_inspect", seen, progress=no_progress)
        if not as_json:
            _print_inspection(shown, found)
        if not yes:
            confirm(f"Approve {name} with {count_text(len(found['tools']), 'tool')}?", undone="nothing was approved")
        answer = client.call("mcp_server_approve", {"server": name, "identity": found["identity"]})
    if as_json:
        echo_json({"server": name, "block": shown["block"], **found})
    else:
        echo(f"approved {name} with {count_text(answer['tools'], 'tool')}")


@mcp_server.command(short_help="Log in to the server NAME in a browser.")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask before an address that is not approved is called.")
@root_option
def login(name: str, yes: bool, root: Path | None) -> None:
    """Log in to the server NAME, which wants OAuth: open the printed address in a browser on this machine.

    The tokens are stored encrypted in the database, and refreshed by the daemon.
    """
    from runtime.cli.login_listener import LoginListener

    with RootClient(find_root(root)) as client, LoginListener() as listener:
        shown = client.call("mcp_server_show", {"server": name})
        if shown["login"] and (shown["approved_at"] is None or shown["differences"]):
            _print_block(shown)
            if not yes:
                confirm("Log in there?", undone="nothing was called")
        asked = {"server": name, "digest": shown["digest"], "redirect_uri": listener.redirect_uri}
        begun = client.call("mcp_server_login_begin", asked, progress=no_progress)
        echo_text(f"Open this address in a browser on this machine:\n\n{one_line(begun['address'])}\n")
        came = listener.wait(begun["address"])
        client.call("mcp_server_login_end", {"server": name, **came}, progress=no_progress)
    echo(f"logged in to {name}")


def _start_text(shown: Mapping[str, Any]) -> str:
    return "Start this command" if shown["kind"] == "command" else "Call this address"


def _remarks(row: Mapping[str, Any]) -> str:
    """Return what needs attention, in one line."""
    if row["state"] == "unapproved":
        return f"symbi mcp-server approve {row['server']}"
    refused = [f"not offered: {line}" for line in row["refused"]]
    return "; ".join(filter(None, (row["problem"], *row["missing_secrets"], *row["differences"], *refused)))


def _print_block(shown: Mapping[str, Any]) -> None:
    """Print what is approved of a block, and how it differs from what was."""
    from shlex import join

    block = shown["block"]
    lines = []
    if "command" in block:
        lines.append(("command", join(block["command"])))
        lines += [("variable", f"{name}={value}") for name, value in block["env"].items()]
    else:
        lines.append(("address", block["url"]))
        lines += [("token", block["token"])] if "token" in block else []
        lines += [("header", f"{name}: {value}") for name, value in block["headers"].items()]
    for what, value in lines:
        echo(f"{what:10}{value}")
    if shown["approved_at"] is not None:
        echo(f"{'approved':10}{local_time(shown['approved_at'])}")
    for line in shown["differences"]:
        echo(f"{'changed':10}{line}", fg="yellow")


def _print_inspection(shown: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Print all tools of a server that was not approved before, else those that differ."""
    tools = {tool["name"]: tool for tool in found["tools"]}
    first = shown["approved_at"] is None
    for name in tools if first else found["new"]:
        _print_tool({**tools[name], "name": f"{shown['server']}.{name}"}, "" if first else "new: ")
    for each in found["changed"]:
        _print_change(f"{shown['server']}.{each['name']}", each["before"], each["after"])
    for name in found["gone"]:
        echo(f"gone: {shown['server']}.{name}", fg="yellow")
    for line in found["refused"]:
        echo(f"not offered: {line}", fg="yellow")
    if not first and not (found["new"] or found["changed"] or found["gone"]):
        same = "is as it was approved" if len(tools) == 1 else "are as they were approved"
        echo(f"its {count_text(len(tools), 'tool')} {same}")


def _print_tool(tool: Mapping[str, Any], prefix: str = "") -> None:
    parameters = ", ".join(tool["schema"].get("properties", {}))
    echo(f"{prefix}{tool['name']}({parameters})", bold=True)
    _print_indented(_tool_lines(tool))


def _print_change(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    echo(f"changed: {name}", fg="yellow", bold=True)
    for key in after:
        if before.get(key) != after[key]:
            _print_indented([f"{key}:", f"- {before.get(key)}", f"+ {after[key]}"])


def _tool_lines(tool: Mapping[str, Any]) -> Sequence[str]:
    """Return what models read of a tool, to the letter, and what the server says about it."""
    hints = [word for word in ("read_only", "destructive", "idempotent") if tool.get(word)]
    said = [f"(the server says: {', '.join(hints).replace('_', '-')})"] if hints else []
    read = tool["model"]
    schema = json_escaped(json.dumps(read["parameters"], ensure_ascii=False, indent=2)) if read["parameters"] else ""
    return [read["description"] or "no description", *schema.split("\n"), *said]


def _print_indented(lines: Sequence[str]) -> None:
    for line in lines:
        echo(f"{_INDENT}{line}")
