"""Programs for the pure parts: a project without an editor, and a text with a mark where the cursor is."""

from __future__ import annotations

from dslc.language_server.completion import Offer, complete
from dslc.language_server.cursor_context import Spot
from dslc.language_server.hover import hover
from dslc.language_server.project import Change, Project
from dslc.vocabulary import Vocabulary
from tests.dslc.catalogs import CATALOG

CURSOR = "|"
HERE = "untitled:here"


def project(**texts: str) -> Project:
    """A project of open documents, each by its name."""
    made = Project(Vocabulary(CATALOG))
    for name, text in texts.items():
        made.open(f"untitled:{name}", 1, text)
    made.settle()
    return made


def at_cursor(marked: str, **others: str) -> tuple[Project, Spot, int]:
    """The project of a text with a cursor in it and of others, the spot of the cursor, and its index."""
    index = marked.index(CURSOR)
    made = project(here=marked.replace(CURSOR, "", 1), **others)
    return made, made.spot(HERE, index), index


def offers(marked: str, **others: str) -> list[Offer]:
    """What is offered at the cursor."""
    made, spot, index = at_cursor(marked, **others)
    return complete(spot, index, made.vocabulary, made.names.declared, made.names.missing)


def labels(marked: str, **others: str) -> list[str]:
    """The labels of what is offered at the cursor, best first."""
    return [offer.label for offer in sorted(offers(marked, **others), key=lambda offer: offer.rank)]


def accepted(marked: str, label: str, *, snippet: bool = False, **others: str) -> str:
    """The text after accepting one of the offers."""
    chosen = next(offer for offer in offers(marked, **others) if offer.label == label)
    text = marked.replace(CURSOR, "", 1)
    new = chosen.snippet if snippet and chosen.snippet else chosen.insert
    return text[: chosen.start] + new + text[chosen.end :]


def said(marked: str, **others: str) -> str:
    """What hovering at the cursor says."""
    made, spot, _ = at_cursor(marked, **others)
    found = hover(spot, made.vocabulary, made.summary)
    return found.markdown if found else ""


def typed(made: Project, text: str) -> None:
    """Replace the text under `HERE`."""
    made.change(HERE, 2, [Change(text)])
