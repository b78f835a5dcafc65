"""`symbi webhook add` and `symbi webhook remove`: they edit the program's files, which a running daemon watches."""

from __future__ import annotations

import sys
from collections.abc import Collection
from pathlib import Path

import click

from runtime.cli.terminal.output import json_option, print_json, root_option
from runtime.cli.webhook.program_files import EditResult, ProgramFiles, display_path, program_files
from runtime.errors import SymbiontError, UsageError

NEW_FILE = "webhooks.symbiont"
"""Where the first webhook of a program of several files goes."""

_file = click.option(
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file of the program to edit. Needed only if several files are possible.",
)


@click.command(short_help="Add the webhook NAME to the program.")
@click.argument("name")
@click.option("--path", required=True, metavar="URLPATH", help="The path of its URL, such as /hooks/github.")
@click.option("--provider", metavar="NAME", help="The sender, such as github.  [default: custom]")
@click.option(
    "--secret",
    metavar="REFERENCE|-",
    help="Reference to the signing secret, such as secret://env/NAME; `-` asks for it.",
)
@click.option("--public-url", metavar="URL", help="The URL given to a sender that signs it, such as Twilio.")
@click.option("--agent", metavar="NAME", help="The agent to run.")
@click.option("--memory", metavar="NAME", help="The memory that the agent uses for its deliveries.")
@click.option("--allow-literal-secret", is_flag=True, help="Allow writing the secret itself into the file.")
@_file
@root_option
@json_option
def add(
    *,
    name: str,
    path: str,
    provider: str | None,
    secret: str | None,
    public_url: str | None,
    agent: str | None,
    memory: str | None,
    allow_literal_secret: bool,
    file: Path | None,
    root: Path | None,
    as_json: bool,
) -> None:
    """Add the webhook NAME to the program, at the end of one of its files.

    Without --file it is the file that declares --agent, else the only file with webhooks, else the only file, else
    webhooks.symbiont. Nothing is written if the program would have a new error.
    """
    given = {
        "path": path,
        "provider": provider,
        "secret": _secret(secret, name, literal=allow_literal_secret),
        "public_url": public_url,
        "agent": agent,
        "memory": memory,
    }
    block = _block(name, {key: value for key, value in given.items() if value is not None})
    with program_files(root, file) as program:
        target = file.resolve() if file else _target(program, agent)
        _refuse_other_names(program, target)
        from dslc.editing.edit import add_block

        change = program.change(target, add_block(program.file(target), block))
    _print_result(program, "added", name, target, change, as_json=as_json)


def _secret(secret: str | None, name: str, *, literal: bool) -> str:
    from dslc.blocks.values.secret import is_reference

    if secret is None:
        raise UsageError(
            "a webhook needs a secret",
            hint=f"--secret secret://generated/{name}: the daemon makes one; --secret secret://env/NAME: a variable",
        )
    if secret == "-":  # noqa: S105 - it stands for standard input
        secret = click.prompt("Secret", hide_input=True, err=True) if sys.stdin.isatty() else _line_of_stdin()
    if not literal and not is_reference(secret):
        raise UsageError(
            "this is a secret itself, and everybody who reads the program would read it",
            hint="keep it elsewhere and give --secret secret://env/NAME, or write it with --allow-literal-secret",
        )
    return secret


def _line_of_stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise UsageError("the secret on standard input is not UTF-8 text") from None


def _block(name: str, given: dict[str, str]) -> str:
    from dslc.editing.edit import block
    from dslc.syntax.quoting import named, quoted

    strings = {"path", "secret", "public_url"}
    try:
        settings = [(key, quoted(value) if key in strings else named(value)) for key, value in given.items()]
        return block("webhook", name, settings)
    except ValueError:
        # Not which one: it may be the secret.
        raise UsageError("a name or value holds what no program can: NUL, or bytes that are not UTF-8") from None


def _target(program: ProgramFiles, agent: str | None) -> Path:
    """The file that a new webhook goes to."""
    from dslc.editing.edit import names

    files = {path: file for path, file in program.files.items() if file.readable}
    for choice in (
        [path for path, file in files.items() if agent is not None and agent in names(file, "agent")],
        [path for path, file in files.items() if names(file, "webhook")],
        list(program.files),
    ):
        if len(choice) == 1:
            return choice[0]
    folders = [path for path in program.paths if path.is_dir()]
    if len(folders) == 1:
        return folders[0].resolve() / NEW_FILE
    raise _ambiguous(list(program.files) or list(program.paths))


def _ambiguous(files: list[Path]) -> UsageError:
    some = ", ".join(display_path(path) for path in files[:6]) + (", …" if len(files) > 6 else "")
    return UsageError(f"it could be any of these files: {some}", hint="name one with --file")


def _refuse_other_names(program: ProgramFiles, target: Path) -> None:
    """Raise UsageError for a new file that no command would find again."""
    from dslc.files import SUFFIX

    if target not in program.sources and (target.suffix != SUFFIX or target.name.startswith(".")):
        raise UsageError(f"{display_path(target)}: a program's file has a name that ends in {SUFFIX}")


@click.command(short_help="Remove the webhook NAME from the program.")
@click.argument("name")
@_file
@root_option
@json_option
def remove(name: str, file: Path | None, root: Path | None, as_json: bool) -> None:
    """Remove the webhook NAME from the program, with the comments directly above it."""
    from dslc.editing.edit import names, remove_block

    with program_files(root, file) as program:
        files = {path: known for path, known in program.files.items() if file is None or path == file.resolve()}
        if file is not None and not files:
            raise UsageError(f"{display_path(file)}: no such file")
        found = [path for path, known in files.items() if known.readable and name in names(known, "webhook")]
        if len(found) > 1:
            raise _ambiguous(found)
        if not found:
            raise _unknown_name(name, files.keys(), program)
        try:
            edit = remove_block(program.file(found[0]), "webhook", name)
        except LookupError:
            raise SymbiontError(
                f"{display_path(found[0])} declares the webhook {name} more than once",
                hint="remove one of them by hand",
            ) from None
        change = program.change(found[0], edit)
    _print_result(program, "removed", name, found[0], change, as_json=as_json)


def _unknown_name(name: str, files: Collection[Path], program: ProgramFiles) -> UsageError:
    from dslc.editing.edit import names
    from runtime.suggestions import unknown_name

    known = [other for path in files if program.files[path].readable for other in names(program.files[path], "webhook")]
    broken = [display_path(path) for path in files if not program.files[path].readable]
    error = unknown_name("webhook", name, known)
    if broken:
        return UsageError(str(error), hint=f"{', '.join(broken)}: not looked into, for a syntax error")
    return error


def _print_result(
    program: ProgramFiles, done: str, name: str, file: Path, change: EditResult, *, as_json: bool
) -> None:
    """Say what was done, and what a daemon makes of it."""
    running = program.has_daemon()
    if as_json:
        print_json(
            {
                "webhook": name,
                "file": display_path(file),
                "done": done,
                "warnings": list(change.warnings),
                "errors": change.errors,
                "daemon": "running" if running else "not running",
            }
        )
        return
    click.echo(f"{done} webhook {name}: {display_path(file)}")
    for warning in change.warnings:
        click.echo(f"warning: {warning}")
    if change.errors:
        count = "an error" if change.errors == 1 else f"{change.errors} errors"
        click.echo(f"the program still has {count}, and no daemon takes it until then; `dslc check` names them")
    elif running:
        click.echo("the running daemon takes it up within a second; `symbi webhook list` shows it")
    else:
        click.echo("no daemon is running on it; `symbi up` starts one")
