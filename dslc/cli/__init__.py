"""The command `dslc`. Exit 0: no errors; 1: errors, or warnings that are denied; 2: it could not run."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType

import click

from dslc.cli.lazy_group import LazyGroup, escape_unencodable, version_option
from dslc.cli.terminal import put

_INTERRUPTED = 130

COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "check": "dslc.cli.check:check",
        "compile": "dslc.cli.check:compile_",
        "fmt": "dslc.cli.fmt:fmt",
        "schema": "dslc.cli.schema:schema",
        "lsp": "dslc.cli.lsp:lsp",
        "completion": "dslc.cli.completion:completion",
        "docs": "dslc.cli.docs:docs",
        "diff": "dslc.cli.diff:diff",
        "explain": "dslc.cli.explain:explain",
    }
)
"""The location of every command."""


@click.group(
    cls=LazyGroup, places=COMMANDS, no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@version_option("dslc")
def dslc() -> None:
    """The compiler of .symbiont files."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `dslc` and exit with its code."""
    escape_unencodable()
    given = list(sys.argv[1:] if arguments is None else arguments)
    sys.exit(_run(given))


def _run(given: list[str]) -> int:
    try:
        code = dslc.main(given, prog_name="dslc", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        put(f"{error.format_message()}\n", to_stderr=True)
        return 2
    except click.ClickException as error:
        put(_failure(given, error.format_message()))
        put(f"dslc: {error.format_message()}\n", to_stderr=True)
        return 2
    except (KeyboardInterrupt, click.Abort):
        return _INTERRUPTED
    return code if isinstance(code, int) else 0


def _failure(given: Sequence[str], message: str) -> str:
    """Return a report of the failure in the requested format; "" if the options name no known format."""
    asked = [value for name, value in pairwise(given) if name == "--format"]
    asked += [option.removeprefix("--format=") for option in given if option.startswith("--format=")]
    if not asked:
        return ""
    from dslc.report import FORMATS

    form = FORMATS.get(asked[-1])
    return form.render_failure(message) if form is not None else ""
