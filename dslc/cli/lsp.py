"""`dslc lsp`."""

from __future__ import annotations

import click

from dslc.cli.terminal import CannotRun


@click.command(short_help="Serve editors over the Language Server Protocol.")
@click.option("--stdio", is_flag=True, help="Speak on standard input and output, which it always does.")
def lsp(*, stdio: bool) -> int:
    """Serve editors over the Language Server Protocol, on standard input and output."""
    try:
        import pygls  # noqa: F401 - the extra is there or not
    except ImportError as error:
        raise CannotRun("the language server needs an extra: pip install 'symbiont[lsp]'") from error
    from dslc.language_server.server import serve

    return serve()
