"""`symbi user`: users, who own tokens, webhooks and items."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import click

from dslc.blocks.values.quantity import format_size
from runtime.cli.client import RootClient
from runtime.cli.terminal.limits import LIMITS, amount_text
from runtime.cli.terminal.output import count_text, print_table
from runtime.cli.terminal.screen import echo
from runtime.cli.tool_command import Rows, Sentence, tool_command


@click.group()
def user() -> None:
    """Add, list and remove users. Each has its own webhooks, tokens and items.

    Other users cannot see them without the scope `admin`.

    The user `owner` always exists. Data belongs to the id of a user: a new user of the same name does not get it.
    """


_command = partial(tool_command, group=user)

_command(
    "user_add",
    "add",
    short="Add a user.",
    doc="Add the user NAME.",
    arguments={"name": "NAME"},
    view=Sentence("added the user {user}; `symbi token create --user {user}` creates a token"),
)
_command(
    "user_list",
    "list",
    short="List every user with its limits and its storage.",
    doc="List every user, its valid tokens, its limits, and what it has stored.",
    view=Rows(
        "users",
        {
            "user": "user",
            "id": "id",
            "since": "created_at",
            "access tokens": "tokens",
            "limits": lambda row: _limits_text(row["limits"]),
            "tier": lambda row: row["tier"]["holds"],
            "storage": lambda row: _storage_text(row["storage"]),
            "time zone": "time_zone",
        },
        empty="There are no users.",
    ),
)


def _print_user(answer: Mapping[str, Any]) -> None:
    echo(f"{answer['user']}, {answer['id']}, {count_text(answer['tokens'], 'access token')}")
    tier, zone = answer["tier"], answer["time_zone"]
    echo(
        f"tier {tier['holds']} ({'default' if tier['set'] is None else 'set'}), "
        f"time zone {zone or 'of the machine (default)'}"
    )
    used, reserved = answer["used"], answer["reserved"]
    rows = []
    for name, key in (("tokens_per_day", "tokens"), ("cost_per_day", "cost"), ("runs_per_hour", "runs")):
        limit = answer["limits"][name]
        source = "default" if limit["set"] is None else "set"
        most = "none" if limit["most"] is None else f"{amount_text(name, limit['most'])} ({source})"
        spent = "-" if used[key] is None else amount_text(name, used[key])
        rows.append((LIMITS[name], most, spent, "-" if key == "runs" else amount_text(name, reserved[key])))
    print_table(("limit", "most", "used", "reserved"), [*rows, *_storage_rows(answer)], empty="")


def _storage_rows(answer: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    storage, tier = answer["storage"], f"(tier {answer['tier']['holds']})"
    most = {name: "none" if number is None else f"{number:,} {tier}" for name, number in storage["most"].items()}
    size = f"{format_size(storage['most']['bytes'])} {tier if storage['set'] is None else '(set)'}"
    used = f"{format_size(storage['table_bytes'] + storage['kv_bytes'])}, {storage['used_percent']:g}%"
    parts = f"tables {format_size(storage['table_bytes'])}, kv {format_size(storage['kv_bytes'])}"
    return [
        ("tables", most["tables"], f"{storage['tables']:,}", "-"),
        ("rows per table", most["rows"], "-", "-"),
        ("storage", size, f"{used}: {parts}" if storage["used_percent"] else used, "-"),
        ("texts", f"{format_size(storage['most']['texts'])} {tier}", format_size(storage["text_bytes"]), "-"),
    ]


def _storage_text(storage: Mapping[str, Any]) -> str:
    tables, most = storage["tables"], storage["most"]
    share = f"{tables:,}" if most["tables"] is None else f"{tables:,} of {most['tables']:,}"
    used = format_size(storage["table_bytes"] + storage["kv_bytes"])
    texts = f"{format_size(storage['text_bytes'])} of {format_size(most['texts'])} of texts"
    return f"{share} tables, {used} of {format_size(most['bytes'])} ({storage['used_percent']:g}%), {texts}"


def _limits_text(limits: Mapping[str, Any]) -> str:
    shown = (
        f"{'no limit of' if limit == 'none' else amount_text(name, limit)} {LIMITS[name]}"
        for name, limit in limits.items()
        if limit is not None
    )
    return ", ".join(shown) or "-"


_command(
    "user_show",
    "show",
    short="Show a user with its limits and its storage.",
    doc="Show the user NAME, its limits and its storage, and how much of them is used.",
    arguments={"name": "NAME"},
    view=_print_user,
)
_command(
    "user_set",
    "set",
    short="Limit what a user may store, and what its agents may use.",
    doc="""Set what the user NAME may store in tables and kv, what all agents may use for it, and its time zone.

    A limit of agents is a number, or `none` for no limit. `default` takes back what was set: then that of the daemon
    holds (SYMBIONT_USER_TOKENS_PER_DAY, SYMBIONT_USER_COST_PER_DAY, SYMBIONT_USER_RUNS_PER_HOUR, SYMBIONT_TIER), for
    the storage that of the tier, for the time zone that of the machine. Runs that wait because of a limit are tried
    again. In a smaller tier what is stored can be read and deleted; only growth is refused.

    For example: symbi user set ada --tier pro --tokens-per-day 100000 --cost-per-day 1.50
    """,
    arguments={"name": "NAME"},
    options={
        "tokens_per_day": "--tokens-per-day N",
        "cost_per_day": "--cost-per-day DOLLARS",
        "runs_per_hour": "--runs-per-hour N",
        "tier": "--tier TIER",
        "storage": "--storage SIZE",
        "time_zone": "--timezone ZONE",
    },
    view=_print_user,
)


def _ask_remove(client: RootClient, given: Mapping[str, Any], _user: str | None) -> str | None:
    # No question for a user that does not exist or cannot be removed: the call fails.
    if given["name"] not in {row["user"] for row in client.call("user_list")["users"] if row["created_at"]}:
        return None
    what = "its tokens and webhooks" if given["keep"] else "its tokens, webhooks, items, tables, kv and tasks"
    return f"Remove {given['name']} with {what}?"


def print_removal(answer: Mapping[str, Any]) -> None:
    """Print what was deleted with a user."""
    name = answer["name"]
    if not any(answer[part] for part in ("removed", "items", "tables", "rows", "problems")):
        echo(f"nothing is stored of {name}")
    else:
        tokens, webhooks = count_text(answer["tokens"], "access token"), count_text(answer["webhooks"], "webhook")
        echo(f"removed {name}, {tokens} and {webhooks}")
        _print_erasure(answer)
    for problem in answer["problems"]:
        echo(f"not deleted yet: {problem}", fg="red", err=True)
    if answer["problems"]:
        echo(f"the daemon tries again; or use `symbi user remove id:{answer['id']}`", err=True)


def _print_erasure(answer: Mapping[str, Any]) -> None:
    if answer["kept"]:
        echo(f"the data of the user is kept, under id:{answer['id']}, encrypted with the owner's key")
    elif answer["exported"] is not None:
        file = answer["exported"]["file"]
        echo(f"the export {file} still has the key of the user: `symbi key export {file}` replaces it")
    for memory, count in answer["items"].items():
        echo(f"deleted {count_text(count, 'item')} in the memory {memory}")
    if answer["tables"]:
        echo(f"deleted {count_text(answer['tables'], 'table')}")
    for table, count in answer["rows"].items():
        echo(f"deleted {count_text(count, 'row')} of {table}")


_command(
    "user_remove",
    "remove",
    short="Remove a user and, without --keep, all its data.",
    doc="""Remove the user NAME permanently, with its tokens, the webhooks it created, their deliveries, its items in
    every memory, and its tables, key-value store and tasks.

    Without --keep the key of the user is forgotten first: what copies of the data have of the user cannot be read from
    then on, except with an export of keys from before.

    Exit code 1 if something could not be deleted. The daemon tries again; so does the same command with `id:ID`.
    """,
    arguments={"name": "NAME"},
    question=_ask_remove,
    undone="nothing was removed",
    failed=lambda answer: answer["problems"],
    view=print_removal,
)
