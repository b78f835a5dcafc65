"""`dslc lsp`."""

from __future__ import annotations

import sys

import click

from dslc.cli.terminal import CannotRun

PYGLS = "pygls>=2.1,<3"
"""What the extra `lsp` holds. The name of this distribution belongs to somebody else on PyPI, so it is in no hint."""


@click.command(short_help="Serve editors over the Language Server Protocol.")
@click.option(
    "--stdio", is_flag=True, help="Use standard input and output. Always on; accepted for editors that pass it."
)
def lsp(*, stdio: bool) -> int:
    """Serve editors over the Language Server Protocol, on standard input and output."""
    try:
        import pygls  # noqa: F401 - the extra is there or not
    except ImportError as error:
        raise CannotRun(f"the language server needs pygls: {sys.executable} -m pip install '{PYGLS}'") from error
    from dslc.language_server.protocol.server import serve

    return serve()
