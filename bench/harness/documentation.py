"""`python -m bench.harness.documentation --source FOLDER --output FILE.jsonl`: questions about public documentation.

FOLDER holds an unpacked release for each row of `SETS`, under the row's name. Its pages are cut as a pushed document
is, and written in the form that `bench.harness.dialogues` describes: a conversation for each set, a session for each
page, an item for each chunk. The questions are `bench/data/documentation_questions.jsonl`. Their evidence is given as
anchors, short phrases that occur once on a page, and so does not depend on the size of a chunk.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runtime.documents import read
from runtime.errors import SymbiontError, UsageError
from runtime.memory.chunking import spans

CHUNK = 800
"""Characters of a chunk: about 200 tokens of these pages."""
QUESTIONS = Path(__file__).parent.parent / "data" / "documentation_questions.jsonl"


@dataclass(frozen=True, slots=True)
class DocumentationSet:
    """A release of a project's documentation. `pages`: the folder of its pages in the release. `sha256`: of the paths
    and the content of its pages."""

    name: str
    repository: str
    tag: str
    commit: str
    licence: str
    pages: str
    released: datetime
    sha256: str

    @property
    def source(self) -> str:
        """What it is and where it comes from."""
        return f"documentation of {self.name} {self.tag} ({self.repository} at {self.commit[:12]})"


SETS = (
    DocumentationSet(
        name="flask",
        repository="github.com/pallets/flask",
        tag="3.1.3",
        commit="22d924701a6ae2e4cd01e9a15bbaf3946094af65",
        licence="BSD-3-Clause",
        pages="docs",
        released=datetime(2026, 2, 18, tzinfo=UTC),
        sha256="303f6e81bedd9775abb51db6410d814b7e3f2bb619768f788c9f1412b5805530",
    ),
    DocumentationSet(
        name="restic",
        repository="github.com/restic/restic",
        tag="v0.19.1",
        commit="6aa3a516ce654808a1f28f9fa21e9b7c8e6e90bf",
        licence="BSD-2-Clause",
        pages="doc",
        released=datetime(2026, 7, 5, tzinfo=UTC),
        sha256="1e70860e4f16523bbc7aa3a16d452d0adaa401eee6e47d963ce8815c310963f1",
    ),
)


class Asked(BaseModel):
    """A question about a set. `kind`: in the words of the documentation, as a problem, or in other words. `evidence`:
    the anchors on each page."""

    model_config = ConfigDict(extra="forbid")

    about: str
    q: str = Field(min_length=1)
    cat: Literal["single_hop", "multi_hop", "temporal", "open_domain"]
    kind: Literal["worded", "described", "paraphrased"]
    evidence: dict[str, Annotated[list[str], Field(min_length=1)]] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class Page:
    """The text of a page, and the id and the beginning and end of each of its chunks."""

    text: str
    chunks: Sequence[tuple[str, int, int]]

    def holding(self, anchor: str) -> list[str]:
        """Return the ids of the chunks in which the anchor begins: one, or two if chunks overlap. Raises ValueError if
        the page does not have it exactly once. White space is the same as any other."""
        found = [each.start() for each in re.finditer(r"\s+".join(map(re.escape, anchor.split())), self.text)]
        if len(found) != 1:
            raise ValueError(f"occurs {len(found)} times")
        return [id_ for id_, start, end in self.chunks if start <= found[0] < end]


def pages_of(given: DocumentationSet, source: Path) -> dict[str, str]:
    """Return the text of each page by its path. Raises UsageError if they are not those of the release."""
    folder = source / given.name / given.pages
    files = {file.relative_to(folder).as_posix(): file for file in sorted(folder.rglob("*.rst"))}
    digest = hashlib.sha256()
    for path, file in files.items():
        content = file.read_bytes()
        digest.update(f"{path}\0{len(content)}\0".encode() + content)
    if digest.hexdigest() != given.sha256:
        raise UsageError(
            f"{folder} does not have the pages of {given.repository} at {given.tag} (commit {given.commit}): "
            f"{len(files)} pages with the hash {digest.hexdigest()}, not {given.sha256}",
            hint=f"unpack that release as {source / given.name}",
        )
    return {path: read(file).text for path, file in files.items()}


def questions(file: Path) -> list[tuple[int, Asked]]:
    """Return the questions of a file, with their lines. Raises UsageError for an invalid line."""
    found = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        try:
            asked = Asked.model_validate_json(line)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise UsageError(f"{file}:{number} is not a question: {where}: {first['msg']}") from None
        if asked.about not in (names := [each.name for each in SETS]):
            raise UsageError(f"{file}:{number} is about {asked.about}, which is none of: {', '.join(names)}")
        found.append((number, asked))
    return found


def conversation(
    given: DocumentationSet, texts: Mapping[str, str], asked: Sequence[tuple[int, Asked]], size: int, overlap: int
) -> dict[str, Any]:
    """Return a set and the questions about it, as a line of a file. Raises UsageError, naming the question, for an
    unknown page and for an anchor that its page does not have exactly once."""
    items: list[dict[str, Any]] = []
    pages: dict[str, Page] = {}
    for session, (path, text) in enumerate(texts.items(), 1):
        chunks = [(f"{path}#{number}", *span) for number, span in enumerate(spans(text, size, overlap), 1)]
        pages[path] = Page(text, chunks)
        for id_, start, end in chunks:
            time = given.released + timedelta(seconds=len(items))
            items.append({"id": id_, "session": session, "iso": time.isoformat(), "text": text[start:end]})
    queries = [
        {"q": each.q, "cat": each.cat, "kind": each.kind, "evidence": _evidence(number, each, pages)}
        for number, each in asked
        if each.about == given.name
    ]
    return {
        "source": given.source,
        "licence": given.licence,
        "conv": given.name,
        "items": items,
        "queries": queries,
    }


def _evidence(number: int, asked: Asked, pages: Mapping[str, Page]) -> list[str]:
    found: dict[str, None] = {}
    for path, anchors in asked.evidence.items():
        if path not in pages:
            raise UsageError(f"question {number} names the page {path}, which {asked.about} does not have")
        for anchor in anchors:
            try:
                found.update(dict.fromkeys(pages[path].holding(anchor)))
            except ValueError as error:
                raise UsageError(f"the anchor of question {number}, {anchor!r}, {error} on the page {path}") from None
    return list(found)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.harness.documentation", description=__doc__.splitlines()[0].partition(": ")[2]
    )
    names = ", ".join(f"{each.name} ({each.repository} {each.tag})" for each in SETS)
    parser.add_argument("--source", type=Path, required=True, help=f"the folder with the releases {names}")
    parser.add_argument("--output", type=Path, required=True, help="the file to write, one JSON object per line")
    parser.add_argument("--chunk", type=int, default=CHUNK, help="characters of a chunk (default %(default)s)")
    parser.add_argument("--overlap", type=int, default=0, help="characters that a chunk repeats (default %(default)s)")
    options = parser.parse_args(given)
    if options.chunk < 1 or options.overlap < 0:
        parser.error("a chunk has at least one character, and an overlap none or more")
    return options


def main(given: Sequence[str] | None = None) -> int:
    """Write the file. Returns 2, after one line that says why, if it cannot be made."""
    options = arguments(given)
    try:
        asked = questions(QUESTIONS)
        lines = [
            conversation(each, pages_of(each, options.source), asked, options.chunk, options.overlap) for each in SETS
        ]
        options.output.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    except (SymbiontError, OSError) as error:
        reason = error.line() if isinstance(error, SymbiontError) else f"{error.filename}: {error.strerror}"
        print(f"bench.harness.documentation: {reason}", file=sys.stderr)
        return 2
    for line in lines:
        print(f"{line['source']}: {len(line['items'])} chunks, {len(line['queries'])} questions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
