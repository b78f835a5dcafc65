"""`symbi push`: stores files, folders and text in a collection."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runtime.cli.client import RootClient, find_root
from runtime.cli.terminal.output import count_text, json_option, print_table, root_option
from runtime.cli.terminal.progress import no_progress, progress_bar
from runtime.cli.terminal.screen import echo, echo_json
from runtime.errors import SymbiontError, UsageError

if TYPE_CHECKING:
    from runtime.cli.collection.push_sources import PushSource, PushSources
    from runtime.daemon.process.root import Root

_TYPES = ("episodic", "semantic", "procedural")
_SHOWN = 5
"""Maximum number of skipped file types that are named; the rest is counted."""
_PAGES_AHEAD = 25
"""Pages looked for at once behind the last one. If a document had this many blank pages, later pages are not found."""


@click.command(short_help="Store files, folders or text in a collection, in chunks.")
@click.argument("paths", metavar="PATH…|-", nargs=-1, required=True, type=click.Path())
@click.option("--collection", metavar="NAME", help="The collection to store in.  [default: the default collection]")
@click.option("--project", "project_id", metavar="ID", help="The project of the items.")
@click.option("--type", "memory_type", type=click.Choice(_TYPES), help="The type of the items.  [default: semantic]")
@click.option("--tag", "tags", metavar="TAG", multiple=True, help="A tag. Repeatable.")
@click.option(
    "--source-uri",
    metavar="URI",
    help="The source of the items, for a single file or `-`.  [default: the URI of the file]",
)
@click.option(
    "--encoding", metavar="NAME", help="The encoding of text that is not UTF-8 and declares none, such as latin-1."
)
@click.option(
    "--replace/--no-replace", default=True, help="Delete items whose text is no longer in the file.  [default: yes]"
)
@click.option("--dry-run", is_flag=True, help="Show what would be pushed without pushing it.")
@root_option
@json_option
def push(
    *,
    paths: tuple[str, ...],
    source_uri: str | None,
    encoding: str | None,
    replace: bool,
    tags: tuple[str, ...],
    dry_run: bool,
    root: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Store the text of PATH, or with `-` of standard input. PATH is a text, Markdown, HTML or PDF file, or a folder.

    Text that is stored already is skipped, so the same command resumes an interrupted push. If a file was edited, its
    new text is stored and items with text that it no longer contains are deleted. A file that cannot be read is
    reported and the others are pushed; the exit code is then 1.
    """
    # First, so that a command in the wrong folder reads no files.
    found = None if dry_run else find_root(root)
    sources = _sources(paths, source_uri, encoding)
    if found is None:
        _dry_run(sources, as_json=as_json)
    else:
        about = {**given, "tags": list(tags) or None}
        _push(found, sources, about, replace=replace, as_json=as_json)
    if sources.failed:
        sys.exit(1)


def _sources(paths: tuple[str, ...], source_uri: str | None, encoding: str | None) -> PushSources:
    from runtime.cli.collection.push_sources import PushSources
    from runtime.documents.encoding import find_encoding

    sources = PushSources(paths, None if encoding is None else find_encoding(encoding), source_uri)
    if source_uri is not None and len(sources) > 1:
        raise UsageError(f"--source-uri is for a single file, and there are {len(sources):,}")
    return sources


class _Totals:
    """The sums over all answers."""

    def __init__(self) -> None:
        self.files = 0
        self.counts = dict.fromkeys(("inserted", "updated", "skippedDuplicates", "removed"), 0)
        self.notes: dict[str, None] = {}
        self.collection: str | None = None

    def add(self, answer: dict[str, Any]) -> None:
        for name in self.counts:
            self.counts[name] += answer[name]
        self.notes.update(dict.fromkeys(answer["notes"]))
        self.collection = answer["collection"]


def _push(root: Root, sources: PushSources, about: dict[str, Any], *, replace: bool, as_json: bool) -> None:
    done = _Totals()
    try:
        with RootClient(root) as client, progress_bar("pushing") as progress:
            sources.on_read = lambda name: progress(name, sources.read, len(sources))
            for batch in sources.batches(forgetting=replace):
                name = batch.names[-1]
                progress(name, sources.read, len(sources))
                if batch.items:
                    asked = {**about, "items": batch.items, "replace": batch.replaces and replace}
                    answer = client.call("push", asked, progress=no_progress)
                    done.add(answer)
                    for each in answer["failed"]:
                        sources.fail(batch.owners[each["index"]], each["message"])
                done.files += batch.complete_files
                if batch.last is not None and replace:
                    _forget_missing_pages(client, about, batch.last, done)
                progress(name, sources.read, len(sources))
    except (SymbiontError, KeyboardInterrupt):
        if done.files and not as_json:
            echo(f"{count_text(done.files, 'file')} pushed so far; repeat the command for the rest", err=True)
        raise
    _print_result(done, sources, as_json=as_json)


def _forget_missing_pages(client: RootClient, about: dict[str, Any], last: PushSource, done: _Totals) -> None:
    """Delete the items of pages that the document no longer has, a few pages at a time, until there are none."""
    number = len(last.document.passages) + 1
    while True:
        items = [{"text": "", "source_uri": last.uri_of(each)} for each in range(number, number + _PAGES_AHEAD)]
        answer = client.call("push", {**about, "items": items, "replace": True}, progress=no_progress)
        done.add(answer)
        if not answer["removed"]:
            return
        number += _PAGES_AHEAD


def _print_result(done: _Totals, sources: PushSources, *, as_json: bool) -> None:
    if as_json:
        echo_json(
            {
                "collection": done.collection,
                "files": done.files,
                **done.counts,
                "failed": [{"path": path, "message": why} for path, why in sources.failed],
                "passedOver": dict(sources.passed_over),
                "notes": list(done.notes),
            }
        )
        return
    _print_failed(sources)
    if done.files or sources.failed:
        failed = len({path for path, _ in sources.failed})
        row = [done.files, *done.counts.values(), failed]
        columns = ("files", "inserted", "updated", "skipped", "removed", "failed")
        print_table(columns, [[f"{number:,}" for number in row]], empty="")
    else:
        echo("There was nothing to push.")
    _print_passed_over(sources)
    for note in done.notes:
        echo(f"note: {note}", fg="yellow", err=True)


def _print_failed(sources: PushSources) -> None:
    for path, why in sources.failed:
        echo(f"{path}: {why}", fg="red", err=True)


def _print_passed_over(sources: PushSources) -> None:
    passed_over = sources.passed_over
    if passed_over:
        kinds = [f"{kind} {count:,}" for kind, count in passed_over.most_common(_SHOWN)]
        more = [f"{len(passed_over) - _SHOWN} more kinds"] if len(passed_over) > _SHOWN else []
        kinds_text = ", ".join([*kinds, *more])
        echo(f"skipped in folders: {passed_over.total():,} ({kinds_text})", err=True)


def _dry_run(sources: PushSources, *, as_json: bool) -> None:
    """Print what would be pushed."""
    with progress_bar("reading") as progress:
        sources.on_read = lambda name: progress(name, sources.read, len(sources))
        rows = list(sources.documents())
    if as_json:
        echo_json(
            {
                "files": [
                    {
                        "path": each.name,
                        "kind": each.document.kind,
                        "title": each.document.title,
                        "characters": len(each.document.text),
                        "passages": len(each.document.passages),
                        "source_uri": each.uri,
                    }
                    for each in rows
                ],
                "failed": [{"path": path, "message": why} for path, why in sources.failed],
                "passedOver": dict(sources.passed_over),
            }
        )
        return
    _print_failed(sources)
    table = [
        (each.name, each.document.kind, f"{len(each.document.text):,}", each.document.title or "-") for each in rows
    ]
    print_table(("file", "kind", "characters", "title"), table, empty="There is nothing to push.")
    _print_passed_over(sources)
