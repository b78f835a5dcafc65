"""HTML as Markdown: headings, lists, tables and code of the main content, without navigation.

beautifulsoup4 reads it (with Python's own parser), markdownify writes it. Both are in the extra `documents`.
"""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING

from runtime.documents.document import Document, Unreadable, whole
from runtime.documents.encoding import decoded

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

_DECLARED = re.compile(rb"""<(?:meta[^>]+charset|\?xml[^>]+encoding)\s*=\s*["']?\s*([A-Za-z0-9_.:-]+)""", re.IGNORECASE)
_HEAD_BYTES = 1024
"""Bytes in which a page must declare its encoding (HTML Standard, section 4.2.5.4)."""

MOST_TAGS = 200_000
"""Maximum number of tags of a page: each takes a fraction of a millisecond."""
MOST_ATTRIBUTES = 400_000
"""Maximum number of attributes of all tags: each takes nearly a kilobyte during reading."""
_NEVER = (
    "script, style, noscript, template, iframe, object, embed, svg, canvas, math annotation, dialog,"
    "input, select, button, textarea"
)
"""Elements that are not text of the page."""
_NAVIGATION = (
    "nav, [role=navigation], [role=search], [role=banner], [role=contentinfo], [role=menu],[hidden], [aria-hidden=true]"
)
_AROUND = "header, footer, aside"
"""Elements around the main text, unless they are a part of it: an article has a header of its own."""
_BLANKS = re.compile(r"\n{3,}")

# For each tag or comment without an end, Python's parser searches the whole rest of the page.
MOST_UNCLOSED = 20
"""Number of unclosed tags and comments that are accepted in a page of any size."""
MOST_SEARCHED = 20_000_000
"""Maximum characters to search for the ends of further ones: about a second."""
_TAG = re.compile(r"<[A-Za-z][^<>]*+")
_QUOTED = re.compile(r"\"[^\"<>]*+\"|'[^'<>]*+'")
_UNCLOSED = re.compile(r"<[A-Za-z/!?][^<>]*+(?=<|\Z)")
_NO_TAGS = re.compile(r"<!--(?:.*?-->)?|<(script|style)\b.*?(?:</\1|\Z)", re.IGNORECASE | re.DOTALL)
"""Comments and code, in which `<` does not begin a tag."""


def read_html(data: bytes, encoding: str | None) -> Document:
    """Return the page's `main` part, else its only `article`, else its body, as Markdown; links become their texts,
    images their alternative texts. Raises Unreadable."""
    found = _DECLARED.search(data[:_HEAD_BYTES])
    declared = found[1].decode("ascii") if found else None
    if declared is not None and declared.casefold() in {"iso-8859-1", "latin-1", "latin1", "ascii", "us-ascii"}:
        # On the web this name means windows-1252 (Encoding Standard, section 4.2).
        declared = "cp1252"
    text = decoded(data, encoding, declared)
    if text.count("<") > MOST_TAGS:
        raise Unreadable(f"it has more than {MOST_TAGS:,} tags", hint="split it")
    if _attributes(text) > MOST_ATTRIBUTES:
        raise Unreadable(f"its tags have more than {MOST_ATTRIBUTES:,} attributes", hint="split it")
    _check_tag_ends(text)
    from bs4 import BeautifulSoup
    from bs4.exceptions import ParserRejectedMarkup

    try:
        with warnings.catch_warnings():
            # The library warns of text that looks like an address or like XML; the declared format is used.
            warnings.simplefilter("ignore")
            page = BeautifulSoup(text, "html.parser")
            title = _title(page)
            return whole(_markdown(_content(page)), title)
    except RecursionError:
        raise Unreadable("its elements are nested too deep") from None
    except ParserRejectedMarkup:
        raise Unreadable("it is not readable HTML", hint="it contains an unknown `<![` construct") from None


def _attributes(text: str) -> int:
    """Return the number of attributes of the tags, or a few more: words in a quoted value with `<` or `>` count,
    too."""
    return sum(len(tag.split()) - 1 for tag in _TAG.findall(_QUOTED.sub("", text)))


def _check_tag_ends(text: str) -> None:
    """Raise Unreadable if too many tags and comments have no end."""
    comments = text.count("<!--", text.rfind("-->") + 1)
    _check_unclosed(comments, text)
    _check_unclosed(comments + sum(1 for _ in _UNCLOSED.finditer(_NO_TAGS.sub("", text))), text)


def _check_unclosed(unclosed: int, text: str) -> None:
    if unclosed > MOST_UNCLOSED and unclosed * len(text) > MOST_SEARCHED:
        raise Unreadable(f"{unclosed:,} of its tags and comments have no end", hint="is it HTML?")


def _title(page: BeautifulSoup) -> str | None:
    named = page.title or page.find("h1")
    return named.get_text(" ", strip=True) if named is not None else None


def _content(page: BeautifulSoup) -> Tag:
    for unwanted in page.select(_NEVER):
        unwanted.decompose()
    main = page.select_one("main, [role=main]")
    articles = page.find_all("article")
    content = main or (articles[0] if len(articles) == 1 else None) or page.body or page
    for unwanted in content.select(_NAVIGATION):
        unwanted.decompose()
    for unwanted in content.select(_AROUND):
        if not unwanted.decomposed and unwanted.find_parent(["main", "article"]) is None:
            unwanted.decompose()
    for image in content.find_all("img"):
        image.replace_with(str(image.get("alt") or ""))
    return content


def _markdown(content: Tag) -> str:
    from markdownify import ATX, MarkdownConverter

    # Text is searched and read as it was written, so it is not escaped.
    converter = MarkdownConverter(
        heading_style=ATX,
        bullets="-",
        strip=["a"],
        escape_asterisks=False,
        escape_underscores=False,
        escape_misc=False,
        code_language_callback=_language,
    )
    return _BLANKS.sub("\n\n", converter.convert_soup(content)).strip()


def _language(block: Tag) -> str | None:
    """Return the language of a block of code, as highlighters write it: `<code class="language-python">`."""
    code = block.find("code")
    for each in (block, code):
        for name in (each.get("class") or ()) if each is not None else ():
            if name.startswith("language-"):
                return str(name).removeprefix("language-")
    return None
