"""`symbi key`: the keys of users, and the master key that wraps them; `symbi secret`: secrets of webhooks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click

from runtime.cli.client import RootClient, find_root
from runtime.cli.terminal.output import count_text, json_option, local_time, root_option
from runtime.cli.terminal.progress import progress_bar
from runtime.cli.terminal.screen import echo, echo_exact, echo_json
from runtime.cli.tool_command import Cell, Rows, tool_command
from runtime.errors import UsageError


@click.group()
def key() -> None:
    """Show, rotate, export and import the keys of users.

    Each user has a key, with which what is stored of the user is encrypted. The master key encrypts these keys.
    """


def _print_status(answer: Mapping[str, Any]) -> None:
    master = answer["master_key"]
    echo(f"master key   {master['id']}, from {master['from']}")
    echo(f"keys         {answer['current']:,} in {answer['stored_in']}")
    echo(f"to forget    {_resealing_text(answer)}")
    echo(f"last export  {_export_text(answer['exported'])}")
    echo()
    bound = answer["bound"]
    columns: Mapping[str, Cell] = {
        "user": "user",
        "key": "id",
        "generation": "generation",
        "used": lambda row: f"{row['used']:,} ({row['used'] / bound:.1%} of the bound)",
        "since": "created_at",
    }
    Rows("most_used", columns, empty="There are no keys yet.")(answer)


tool_command(
    "key_status",
    "status",
    short="Show where the keys are, and how often they were used.",
    doc="""Show where the keys are, how often they were used, and what is being encrypted again.

    A key may encrypt 2^32 values, the bound of NIST SP 800-38D. Users get a new key at half of it, and by `symbi key
    rotate`.
    """,
    view=_print_status,
    group=key,
)


def _resealing_text(answer: Mapping[str, Any]) -> str:
    work = answer["resealing"]
    if work is None:
        return "nothing: everything is encrypted with current keys"
    keys = count_text(len(answer["retired"]), "retired key")
    if not work["due"]:
        return f"{keys}, soon: everything is encrypted with current keys"
    if not work["of"]:
        # No daemon has looked yet.
        return keys
    text = f"{keys}; {work['rows']:,} of {work['of']:,} rows looked at, {work['sealed_again']:,} values encrypted again"
    return f"{text}, {work['unreadable']:,} unreadable" if work["unreadable"] else text


def _export_text(record: dict[str, Any] | None) -> str:
    if record is None:
        return "never: `symbi key export FILE`"
    text = f"{local_time(record['at'])}, to {record['file']}"
    return text if record["current"] else f"{text}\n{' ' * 13}keys were rotated or forgotten since: export again"


def _check_choice(given: dict[str, Any]) -> Mapping[str, Any]:
    if (given["user"] is not None) + given["all"] + given["master"] != 1:
        raise UsageError("what is rotated?", hint="one of --user NAME, --all and --master")
    if given["to"] is not None and not given["master"]:
        raise UsageError("--to is the reference of a new master key", hint="add --master")
    return given


def _ask_rotate(_client: RootClient, given: Mapping[str, Any], _user: str | None) -> str | None:
    what = "the file master.key of the root" if given["to"] is None else given["to"]
    return f"Use a new master key, from {what}?" if given["master"] else None


def _print_rotated(answer: Mapping[str, Any]) -> None:
    if answer["master"]:
        echo(f"{count_text(answer['keys'], 'key')} wrapped with {answer['master_key']}, {answer['from']}")
        if answer["to"] is not None:
            echo(f"set SYMBIONT_MASTER_KEY to {answer['to']} before the next start")
        echo("an export made before needs the master key before: replace it with `symbi key export FILE`")
    else:
        again = count_text(answer["sealed_again"], "value")
        echo(f"{count_text(answer['rotated'], 'key')} rotated, {again} encrypted again")
        echo(f"the keys before are forgotten after {local_time(answer['forgotten_after'])}")


tool_command(
    "key_rotate",
    "rotate",
    short="Rotate the key of a user, of all users, or the master key.",
    doc="""Give one user or all users a new key, or use a new master key. The daemon keeps running.

    What is stored of a user is encrypted again with the new key. The key before is forgotten ten minutes later at the
    earliest, when nothing is encrypted with it any more. If this is interrupted, the daemon goes on with it.

    With --master only the keys of users are encrypted again. Without --to the new master key replaces the file
    `master.key` of the root. An export made before needs the master key of that time: export again.
    """,
    options={"to": "--to REFERENCE"},
    user="Give this user a new key.",
    read=_check_choice,
    question=_ask_rotate,
    undone="nothing was rotated",
    progress=partial(progress_bar, "encrypting again", at_once=False),
    view=_print_rotated,
    group=key,
)


@key.command(short_help="Save all keys in FILE, replacing the export before.")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@root_option
@json_option
def export(file: Path, root: Path | None, as_json: bool) -> None:
    """Save the keys of all users in FILE, which is replaced at once and can be read by you alone.

    FILE opens what is stored of all users together with the master key of this moment, and nothing without it. It also
    opens what is in copies of the data of users who are removed later: replace it after each removal, and keep no older
    export.
    """
    from runtime.daemon.process.atomic_file import write_atomically
    from runtime.daemon.process.root_owner import as_invoker

    path = file.absolute()
    with RootClient(find_root(root)) as client:
        answer = client.call("key_export", {"file": str(path)})
        content, version = answer.pop("content"), answer.pop("version")
        try:
            with as_invoker():
                write_atomically(path, _json(content))
        except OSError as error:
            raise UsageError(f"{path}: {(error.strerror or 'cannot be written').lower()}") from None
        client.call("key_export_record", {"file": str(path), "version": version})
    if as_json:
        echo_json({"file": str(path), **answer})
        return
    echo(f"{count_text(answer['keys'], 'key')} saved in {path}")
    echo(f"it opens the data together with the master key {content['master_key_id']}: keep the two apart")
    if answer["before"] is not None:
        echo(f"delete the export before, {answer['before']}: it has keys that may be forgotten by now")


def _json(content: dict[str, Any]) -> bytes:
    import json

    return json.dumps(content, indent=1).encode() + b"\n"


@key.command("import", short_help="Put back the keys of an export.")
@click.argument("file", type=click.Path(dir_okay=False, exists=True, path_type=Path))
@root_option
@json_option
def import_(file: Path, root: Path | None, as_json: bool) -> None:
    """Put back the keys in FILE that are missing, after `keys.db` or the schema `symbiont_keys` was lost.

    No daemon may run on the root. It needs its data, and the master key with which FILE was made. Keys of users that
    were removed since the export stay forgotten.
    """
    from runtime.daemon.key_import import import_keys

    found = import_keys(find_root(root, adopt=True), file)
    if as_json:
        echo_json(found._asdict())
        return
    echo(f"{count_text(found.added, 'key')} put back, {found.there:,} were there already")
    if found.left_out:
        echo(f"{count_text(found.left_out, 'key')} left out, of users who were removed or are not in the data")


@click.group()
def secret() -> None:
    """Show secrets that the daemon generated and stores encrypted."""


tool_command(
    "secret_show",
    "show",
    short="Print the generated secret NAME.",
    doc="Print the generated secret NAME in the form that the settings page of the sender expects.",
    arguments={"name": "NAME"},
    view=lambda answer: echo_exact(answer["value"]),
    group=secret,
)
