"""`dslc diff`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from dslc.cli.terminal import STDIN, CannotRun, colour, put, sources

if TYPE_CHECKING:
    from dslc.compiler import Compilation

_JSON = "--json"
_DIFFERENT = 3


class _Diff(click.Command):
    """Command that, with `--json`, prints one object even if the command line is invalid or a path is missing."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        as_json = _JSON in args
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.ClickException as error:
            _fail(error.format_message(), as_json=as_json)
            raise

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            _fail(error.format_message(), as_json=bool(ctx.params["as_json"]))
            raise


def _fail(message: str, *, as_json: bool) -> None:
    if as_json:
        from dslc.comparison.report import render_failure

        put(render_failure(message))


@click.command(cls=_Diff, short_help="Show what a reload from OLD to NEW would change.")
@click.argument("old")
@click.argument("new")
@click.option(_JSON, "as_json", is_flag=True, help="Print one JSON object.")
def diff(old: str, new: str, *, as_json: bool) -> int:
    """Show what a reload from OLD to NEW would add, change and remove.

    OLD and NEW are files or folders; one of them may be `-`, standard input. Comments, layout and the order of blocks
    are ignored. Literal secrets are not shown.

    Exit code 0: no difference; 1: a program has errors, printed on standard error; 2: the command could not run;
    3: the programs differ.
    """
    if old == new == STDIN:
        raise CannotRun("only one of OLD and NEW can be standard input")
    from dslc.catalog import Catalog
    from dslc.comparison.difference import difference
    from dslc.comparison.report import render, render_json
    from dslc.vocabulary import Vocabulary

    before, after = _compile(old), _compile(new)
    wrong = [which for which, done in (("OLD", before), ("NEW", after)) if _errors(done)]
    if wrong:
        _fail(f"{' and '.join(wrong)} {'have' if len(wrong) > 1 else 'has'} errors", as_json=as_json)
        return 1
    vocabulary = Vocabulary(Catalog.installed())
    found = difference(before.program, after.program, vocabulary)
    put(render_json(found) if as_json else render(found, vocabulary, colour=colour(sys.stdout)))
    return 0 if found.same else _DIFFERENT


def _compile(path: str) -> Compilation:
    given = sources([path])
    from dslc.catalog import Catalog
    from dslc.compiler import analyse

    return analyse(given, Catalog.installed())


def _errors(done: Compilation) -> bool:
    """Return True if the program has errors, after reporting them."""
    from dslc.diagnostics.diagnostic import is_error
    from dslc.report import FORMATS

    wrong = any(map(is_error, done.diagnostics))
    if wrong:
        put(FORMATS["text"].render(done, colour=colour(sys.stderr)), to_stderr=True)
    return wrong
