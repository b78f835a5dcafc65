"""`symbi up`: the daemon."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dslc.version import full
from runtime.cli.terminal.output import WEBHOOKS, print_table, root_option
from runtime.cli.terminal.screen import echo
from runtime.errors import SymbiontError, UsageError
from runtime.identity import users

if TYPE_CHECKING:
    from runtime.daemon.process.settings import ProcessSettings
    from runtime.daemon.program.app import App
    from runtime.daemon.program.reload import CompiledSources


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[PATH]...")
@click.option("--listen", metavar="HOST:PORT", help="The public listener, for senders.  [default: 127.0.0.1:8080]")
@click.option("--admin-listen", metavar="HOST:PORT", help="The operators' listener.  [default: 127.0.0.1:8081]")
@click.option(
    "--admin-names",
    metavar="NAME,…",
    help="Host names that the operators' listener accepts, besides addresses and localhost.",
)
@click.option(
    "--database",
    metavar="URL",
    help="postgresql://… instead of SQLite in the root. Set a URL with a password in SYMBIONT_DATABASE.",
)
@click.option(
    "--trusted-proxies",
    metavar="N",
    help="Number of your proxies in front of the listener, whose X-Forwarded-For is trusted.  [default: 0]",
)
@click.option("--keep-time", metavar="DURATION", help="How long to store finished deliveries.  [default: 30d]")
@click.option("--keep-size", metavar="SIZE", help="Size of their bodies to store.  [default: 256MiB]")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="The lowest level that is logged; debug logs every delivery.  [default: info]",
)
@click.option(
    "--metrics-public",
    is_flag=True,
    default=None,
    help="Serve /metrics without a token, even if other machines can reach it.",
)
@click.option(
    "--log-format",
    type=click.Choice(["auto", "text", "json"]),
    help="auto: text on a terminal, else JSON.  [default: auto]",
)
@click.option(
    "--agents", type=click.Choice(["on", "off"]), help="off: no agent runs, and deliveries wait.  [default: on]"
)
@root_option
def up(paths: tuple[Path, ...], root: Path | None, **flags: str | bool | None) -> None:
    """Start the daemon with the programs under each PATH (default: the current folder).

    Files and folders are watched; SIGHUP reads them and the secrets again. SIGTERM and Ctrl-C drain and stop.
    """
    import structlog
    import uvloop

    from runtime.daemon import server
    from runtime.daemon.process import log_setup
    from runtime.daemon.process.root import is_new, make, named_folder
    from runtime.daemon.process.settings import ProcessSettings

    settings = ProcessSettings.read(flags)
    given = paths or (Path(),)
    here = Path.cwd()
    # Files of this process are for its own user only.
    os.umask(0o077)
    log_setup.configure(settings.log_format, settings.log_level)
    try:
        new = is_new(here, os.environ, root)
        if new:
            _require_programs(given)
            _check_settings(settings, named_folder(os.environ, root) or here)
        status = uvloop.run(
            server.serve(
                lambda: make(here, os.environ, root, adopt=True),
                settings,
                given,
                is_new=new,
                announce=_announce,
                refuse=partial(_refuse, settings),
            )
        )
    except SymbiontError as error:
        if error.may_pass:
            # A service manager tries again after status 1; after 2 a person has to act.
            error.exit_code = 1
        if settings.log_format != "json":
            raise
        structlog.get_logger("symbiont.daemon").error("daemon_start_failed", reason=str(error), help=error.hint)
        sys.exit(error.exit_code)
    sys.exit(status)


def _require_programs(given: Sequence[Path]) -> None:
    """Raise UsageError if there is no program."""
    from dslc import files

    for path in given:
        if not path.exists():
            raise UsageError(f"{path}: no such file or folder")
    if not files.find([path.absolute() for path in given]):
        where = ", ".join(map(str, given))
        raise UsageError(f"no .symbiont files under {where}", hint="name a file or folder of .symbiont programs")


def _check_settings(settings: ProcessSettings, folder: Path) -> None:
    """Raise UsageError for a missing key or an unknown kind of database, before a root is created in `folder`.

    Errors found only by opening the database leave a root behind: its new key may have sealed data.
    """
    from runtime.daemon.process import master_key
    from runtime.daemon.process.root import Root
    from runtime.database.location import locate

    if settings.master_key:
        master_key.load(Root(folder), settings.master_key, os.environ)
    if settings.database:
        locate(settings.database)


def _announce(app: App, known: Mapping[str, str]) -> None:
    """Print addresses, routes and the source of each secret; in one line if the log is JSON."""
    if app.state.settings.log_format == "json":
        import structlog

        structlog.get_logger("symbiont.daemon").info(
            "listening",
            version=full(),
            root=str(app.state.root.folder),
            database=app.state.database.label,
            **app.daemon.addresses,
            webhooks=[{"webhook": entry.title or entry.name, "path": entry.path} for entry in app.mounts.values()],
        )
        return
    echo(f"symbiont {full()}, root {app.state.root.folder}, database {app.state.database.label}")
    echo(f"senders post to  http://{app.daemon.addresses['public']}")
    echo(f"operators use    http://{app.daemon.addresses['admin']}/readyz")
    for reason in app.state.switches.reasons:
        echo(f"switched off     {reason}")
    echo()
    rows = [
        (
            f"{entry.title} ({users.display_name(known, entry.user_id)})" if entry.title else entry.name,
            entry.path,
            entry.provider,
            entry.agent or "-",
            "mounted" if entry.route else "not mounted",
            entry.problem or entry.secret_from,
        )
        for _, entry in sorted(app.mounts.items())
    ]
    print_table(WEBHOOKS, rows, empty="There are no webhooks.")
    sys.stdout.flush()


def _refuse(settings: ProcessSettings, compiled: CompiledSources) -> None:
    """Print the errors of the program that should have been started."""
    from dslc.cli.terminal import put
    from dslc.report import FORMATS

    if settings.log_format == "json":
        import structlog

        for problem in compiled.problems:
            structlog.get_logger("symbiont.daemon").error("program_invalid", problem=problem.text())
        return
    put(FORMATS["text"].render(compiled.compilation, colour=sys.stderr.isatty()), to_stderr=True)
