"""`dslc docs`."""

from __future__ import annotations

from pathlib import Path

import click

from dslc.cli.terminal import STDIN, CannotRun, put


@click.command(short_help="Write the reference of the language as Markdown.")
@click.option(
    "--output",
    default=STDIN,
    metavar="DIR|-",
    help="The folder to write the pages to; `-` prints all pages.  [default: -]",
)
def docs(output: str) -> None:
    """Write the reference of the language: every block, setting, provider and diagnostic, as Markdown.

    Generated pages that are no longer part of the reference are removed from the folder; other files are not touched.
    """
    from dslc.catalog import Catalog
    from dslc.reference.pages import pages
    from dslc.vocabulary import Vocabulary

    written = pages(Vocabulary(Catalog.installed()))
    if output == STDIN:
        put("\n".join(written.values()))
        return
    try:
        _write(Path(output), written)
    except OSError as error:
        raise CannotRun(f"cannot write {error.filename or output}: {error.strerror or error}") from error


def _write(folder: Path, written: dict[str, str]) -> None:
    from dslc.reference.markdown import GENERATED

    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.md"):
        if old.name not in written and old.read_text(encoding="utf-8", errors="replace").startswith(GENERATED):
            old.unlink()
    for name, text in written.items():
        (folder / name).write_text(text, encoding="utf-8")
