"""Programs for the pure parts: a project without an editor, and a text with a mark where the cursor is."""

from __future__ import annotations

from dslc.language_server.completion import CompletionItem, complete
from dslc.language_server.cursor_context import CursorContext
from dslc.language_server.hover import hover
from dslc.language_server.project import DocumentChange, EditorProject
from dslc.vocabulary import Vocabulary
from tests.dslc.catalogs import CATALOG

CURSOR = "|"
HERE = "untitled:here"


def project(**texts: str) -> EditorProject:
    """Return a project of open documents, each by its name."""
    made = EditorProject(Vocabulary(CATALOG))
    for name, text in texts.items():
        made.open(f"untitled:{name}", 1, text)
    made.settle()
    return made


def at_cursor(marked: str, **others: str) -> tuple[EditorProject, CursorContext, int]:
    """Return the project of a text with a cursor and of other texts, the cursor's position, and its index."""
    index = marked.index(CURSOR)
    made = project(here=marked.replace(CURSOR, "", 1), **others)
    return made, made.cursor_context(HERE, index), index


def items(marked: str, **others: str) -> list[CompletionItem]:
    """Return the completions at the cursor."""
    made, cursor_context, index = at_cursor(marked, **others)
    return complete(cursor_context, index, made.vocabulary, made.names.declared_names, made.names.missing_names)


def labels(marked: str, **others: str) -> list[str]:
    """Return the labels of the completions at the cursor, best first."""
    return [item.label for item in sorted(items(marked, **others), key=lambda item: item.rank)]


def accepted(marked: str, label: str, *, snippet: bool = False, **others: str) -> str:
    """Return the text after accepting one of the completions."""
    chosen = next(item for item in items(marked, **others) if item.label == label)
    text = marked.replace(CURSOR, "", 1)
    new = chosen.snippet if snippet and chosen.snippet else chosen.insert
    return text[: chosen.start] + new + text[chosen.end :]


def said(marked: str, **others: str) -> str:
    """Return the hover text at the cursor."""
    made, cursor_context, _ = at_cursor(marked, **others)
    found = hover(cursor_context, made.vocabulary, made.summary)
    return found.markdown if found else ""


def typed(made: EditorProject, text: str) -> None:
    """Replace the text under `HERE`."""
    made.change(HERE, 2, [DocumentChange(text)])
