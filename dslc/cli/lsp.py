"""`dslc lsp`."""

from __future__ import annotations

import sys

import click

from dslc.cli.terminal import CannotRun

PYGLS = "pygls>=2.1,<3"
"""Requirement of the extra `lsp`. Hints do not name this distribution, because its name on PyPI is another
project's."""


@click.command(short_help="Serve editors over the Language Server Protocol.")
@click.option(
    "--stdio", is_flag=True, help="Use standard input and output. Always on; accepted for editors that pass it."
)
def lsp(*, stdio: bool) -> int:
    """Serve editors over the Language Server Protocol, on standard input and output."""
    try:
        import pygls  # noqa: F401 - tests if the extra is installed
    except ImportError as error:
        raise CannotRun(f"the language server needs pygls: {sys.executable} -m pip install '{PYGLS}'") from error
    from dslc.language_server.protocol.server import serve

    return serve()
