"""Readers of documents return the whole text of a file, and report a file that is not a document."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pypdf import PdfReader, PdfWriter

from runtime import documents, extras
from runtime.documents import READERS, Reader, read, reader_of
from runtime.documents.document import Unreadable
from runtime.documents.encoding import find_encoding
from runtime.documents.html import MOST_ATTRIBUTES
from runtime.errors import UsageError
from tests.cases import each_case
from tests.runtime.documents.made import pdf

PAGE = """\
<!DOCTYPE html>
<html><head><meta charset="utf-8"><title> Deploying
  the API </title><style>p { color: red }</style><script>track()</script></head>
<body>
<header><a href="/">Home page</a></header>
<nav><ul><li><a href="/a">Navigation</a></li></ul></nav>
<main>
  <article><header><h1>Deploy</h1></header>
  <p>Use <b>blue_green</b>, see <a href="https://example.com/x">the runbook</a> &amp; wait.</p>
  <h2>Steps</h2>
  <ol><li>Build</li><li>Ship</li></ol>
  <ul><li>one</li><li>two</li></ul>
  <pre><code class="language-python">def a_b(x):
    return x * 2  # _kept_
</code></pre>
  <table><tr><th>Key</th><th>Value</th></tr><tr><td>port</td><td>8080</td></tr></table>
  <p hidden>Secret of the page</p><button>Press</button><img src="a.png" alt="A diagram">
  </article>
</main>
<footer>Imprint</footer>
</body></html>
"""


def refused(source: bytes | Path, *said: str, encoding: str | None = None, name: str | None = None) -> None:
    with pytest.raises(Unreadable) as caught:
        read(source, encoding, name=name)
    line = caught.value.line()
    assert "\n" not in line
    for each in said:
        assert each in line


def test_a_page_keeps_headings_lists_tables_and_code_and_loses_what_leads_elsewhere() -> None:
    found = read(PAGE.encode(), name="page.html")
    assert (found.kind, found.title) == ("html", "Deploying the API")
    for kept in (
        "# Deploy",
        "Use **blue_green**, see the runbook & wait.",
        "## Steps",
        "1. Build\n2. Ship",
        "- one\n- two",
        "```python\ndef a_b(x):\n    return x * 2  # _kept_\n```",
        "| port | 8080 |",
        "A diagram",
    ):
        assert kept in found.text
    for lost in ("Home page", "Navigation", "track", "color", "Secret", "Press", "Imprint", "example.com", "<"):
        assert lost not in found.text


def test_a_page_without_a_main_part_is_its_body() -> None:
    found = read(b"<html><body><header>Top</header><p>One</p><article>A</article><article>B</article></body>")
    assert found.text.split() == ["One", "A", "B"]
    assert read(b"<html><p>No body", name=None).text == "No body"
    assert read(b"a fragment & <b>bold</b>", name="x.htm").text == "a fragment & **bold**"


def test_a_page_is_read_in_the_encoding_it_declares() -> None:
    assert read('<meta charset="iso-8859-1"><p>“café”'.encode("cp1252"), name="a.html").text == "“café”"
    old = '<meta http-equiv="Content-Type" content="text/html; charset=shift_jis"><p>記憶'
    assert read(old.encode("shift_jis"), name="a.html").text == "記憶"
    # Its declared encoding is wrong or unknown.
    assert read('<meta charset="utf-16"><p>café'.encode(), name="a.html").text == "café"
    assert read('<meta charset="nothing"><p>café'.encode(), name="a.html").text == "café"


def test_a_page_in_the_encoding_of_a_hosts_name_is_read_in_utf_8() -> None:
    text = "über-" + "aB3x" * 250_000
    assert read(f"<html><meta charset=Punycode><p>{text}".encode()).text == text


def test_a_page_nested_too_deep_is_refused() -> None:
    refused(b"<html><body>" + b"<div>" * 3_000, "nested too deep")


def test_a_page_of_too_many_tags_is_refused() -> None:
    refused(b"<html><body>" + b"<p>" * 200_000, "more than 200,000 tags", "split it")


@each_case("before", ["", "<!-- <script> -->", "<!--", "<script>'<!--'</script>"])
def test_a_page_of_many_tags_without_an_end_is_refused(before: str) -> None:
    for tag in ("<a ", "<a b='x' ", '<a b="', "<!--", "<!--x>", "</a", "<!DOCTYPE "):
        refused(f"<html>{before}{tag * 50_000}".encode(), "have no end")


@each_case("attribute", ["a", 'a="b c d"', "a='1'"])
def test_a_page_of_too_many_attributes_is_refused(attribute: str) -> None:
    tag = f"<p {f' {attribute}' * (MOST_ATTRIBUTES // 2 + 1)}>text</p>"
    refused(f"<html>{tag}{tag}</html>".encode(), "400,000 attributes")


def test_a_page_with_many_words_in_quotes_is_read() -> None:
    said = " ".join(["word"] * MOST_ATTRIBUTES)
    page = f'<p title="{said}">it says "{said}" and more</p>'
    assert read(page.encode(), name="page.html").text.endswith("and more")


def test_a_page_that_the_parser_gives_up_is_refused() -> None:
    refused(b"<html><![foo [ x", "not readable HTML")


def test_a_page_with_some_tags_without_an_end_is_read() -> None:
    code = "<script>" + "if (a<b) c<d; " * 10_000 + "</script>"
    page = f"<html><body><p>one</p>{code}<p>two <b three</p></body></html>"
    assert read(page.encode()).text.startswith("one\n\ntwo")


def test_text_and_markdown_stay_as_they_stand() -> None:
    text = "# Not *this*\r\n\r\n\tcode  \rlast"
    assert read(text.encode(), name="a.md").text == "# Not *this*\n\n\tcode  \nlast"
    assert read(b"# plain", name="a.txt").title is None
    assert read(b"```sh\n# a comment\n```\n# Title #\n## Sub", name="a.md").title == "Title"
    assert read(b'---\ntags: [a]\ntitle: "From the front"\n---\n# Other', name="a.md").title == "From the front"
    assert read(b"no heading", name="a.md").title is None


@each_case(
    ("head", "title"),
    [
        ("# C#", "C#"),
        ("# Title ##  ", "Title"),
        ("# \n# Second", "Second"),
        ("---\ntitle: 'Its own'  \n---", "Its own"),
        ("---\ntitle: \n---\n# Below", "Below"),
    ],
)
def test_a_title_is_without_what_stands_around_it(head: str, title: str) -> None:
    assert read(head.encode(), name="a.md").title == title


@each_case("head", ["# a{}b", "# a{}#", "---\ntitle: a{}b\n---\n"])
def test_a_long_line_is_read_in_time_in_proportion_to_it(head: str) -> None:
    assert read(head.format(" " * 200_000).encode(), name="a.md").title in {"a b", "a"}


@each_case("codec", ["utf-8-sig", "utf-16", "utf-32", "utf-8"])
def test_text_with_a_byte_order_mark_is_read_by_it(codec: str) -> None:
    assert read("grüße 記憶".encode(codec), name="a.txt").text == "grüße 記憶"


def test_other_encodings_are_never_guessed_but_named() -> None:
    raw = "erste\nZeile café".encode("latin-1")
    refused(raw, "not UTF-8: byte 16, on line 2", "--encoding latin-1", name="a.txt")
    assert read(raw, find_encoding("Latin-1"), name="a.txt").text == "erste\nZeile café"
    assert read("café".encode(), "latin-1", name="a.txt").text == "café"
    refused(b"\xff\xfe\x00\xd8", "not UTF-16", name="a.txt")
    refused("記憶ー".encode("euc-jp"), "it is not ASCII", encoding="ascii", name="a.txt")
    for wrong in ("nothing", "base64", "rot13", "a\0b"):
        with pytest.raises(UsageError, match="unknown encoding"):
            find_encoding(wrong)


def test_binary_data_is_no_text() -> None:
    refused(b"\x89PNG\r\n\x1a\n\0\0", "it is binary", name="a.txt")
    refused(b"text\0more", "it is binary", name="a.md", encoding="latin-1")
    refused("a\0b".encode("utf-16"), "it is binary", name="a.md")


@each_case("name", ["a.txt", "a.md", "a.html"])
def test_an_empty_file_is_a_document_without_text(name: str) -> None:
    for content in (b"", b" \n\t", b"\xef\xbb\xbf"):
        assert read(content, name=name).passages == ("",)


def test_a_pdf_is_its_pages_each_with_its_number() -> None:
    found = read(pdf(["Deploy on Friday.", "Never (again)."], [], ["Grüße"], title="The\nhandbook"), name="a.pdf")
    assert found.passages == ("Deploy on Friday.\nNever (again).", "", "Grüße")
    assert (found.fragment(3), read(b"x").fragment(1)) == ("#page=3", "")
    assert (found.kind, found.title, found.problems) == ("pdf", "The handbook", ())
    assert found.text == "Deploy on Friday.\nNever (again).\n\nGrüße"


def _encrypted(password: str, algorithm: str) -> bytes:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf(["Locked away"]))))
    writer.encrypt(user_password=password, owner_password="owner", algorithm=algorithm)
    made = io.BytesIO()
    writer.write(made)
    return made.getvalue()


@pytest.mark.parametrize("algorithm", ["RC4-128", "AES-256"])
def test_an_encrypted_pdf_is_read_when_it_asks_for_no_password(algorithm: str) -> None:
    assert read(_encrypted("", algorithm)).text == "Locked away"
    refused(_encrypted("secret", algorithm), "encrypted and asks for a password")


def test_a_broken_pdf_is_one_clear_line() -> None:
    good = pdf(["one"], ["two"])
    refused(b"%PDF-1.7\nnothing", "it is not a readable PDF")
    refused(b"%PDF-", "it is not a readable PDF")
    refused(good[:300], "it is not a readable PDF")
    refused(pdf([], []), "there is no text in its 2 pages", "scanned")
    refused(pdf(), "it has no pages")
    # A misplaced cross-reference table can be repaired.
    assert read(good.replace(b"startxref\n", b"startxref\n1")).text == "one\n\ntwo"


def test_a_pdf_that_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.documents.pdf.MOST_SECONDS", 0.05)
    pages = [[f"line {number}" for number in range(200)]] * 300
    refused(pdf(*pages), " of 300 pages take more than 0.05 seconds to read")


def test_a_page_that_cannot_be_read_is_named_and_the_others_are_read() -> None:
    broken = pdf(["one"], ["two"], ["three"])
    broken = broken.replace(b"8 0 obj\n<< /Length 43 >>", b"8 0 obj\n<< /Filter /No>>")
    found = read(broken)
    assert found.passages == ("one", None, "three")
    (problem,) = found.problems
    assert problem.startswith("page 2 cannot be read")


def test_every_cut_of_a_pdf_is_read_or_refused_in_one_line() -> None:
    good = pdf(["one"], ["two"], title="t")
    for end in range(0, len(good), 29):
        try:
            read(good[:end] + b"\xff" * 3 + good[end + 3 :], name="a.pdf")
        except Unreadable as error:
            assert "\n" not in error.line()  # noqa: PT017


@each_case(
    ("head", "name", "kind"),
    [
        (b"%PDF-1.7", None, "pdf"),
        (b"%PDF-1.7", "wrong.txt", "pdf"),
        (b"\xef\xbb\xbf \n<!DOCTYPE HTML>", None, "html"),
        (b"<html>", "page", "html"),
        (b"<html>", "about-html.md", "markdown"),
        (b"# A", "NOTES.MD", "markdown"),
        (b"# A", None, "text"),
        (b"int main()", "main.c", "text"),
    ],
)
def test_the_reader_is_chosen_by_what_the_file_is(head: bytes, name: str | None, kind: str) -> None:
    assert reader_of(head, name).name == kind


def test_every_ending_has_one_reader() -> None:
    assert sum(len(reader.endings) for reader in READERS.values()) == len(documents.ENDINGS)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "large.txt"
    with file.open("wb") as handle:
        handle.truncate(16 * 1024 * 1024 + 1)
    refused(file, "larger than 16 MiB", "split it")
    refused(b"a" * (16 * 1024 * 1024 + 1), "larger than 16 MiB", name="a.txt")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    refused(tmp_path / "pipe.txt", "it is not a file")
    refused(tmp_path, "directory")
    refused(tmp_path / "gone.txt", "no such file")


def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", closed)
    refused(tmp_path / "closed.txt", "permission denied")


def test_without_the_extra_text_is_read_and_the_rest_says_what_to_install(tmp_path: Path) -> None:
    for name, content in (("a.md", b"fine"), ("a.html", b"<p>x"), ("a.pdf", pdf(["x"]))):
        (tmp_path / name).write_bytes(content)
    code = """
import sys
from importlib import util
found = util.find_spec
util.find_spec = lambda name, *rest: None if name in {"bs4", "markdownify", "pypdf"} else found(name, *rest)
from pathlib import Path
from runtime.documents import Unreadable, read
for name in ("a.md", "a.html", "a.pdf"):
    try:
        print(read(Path(sys.argv[1]) / name).text)
    except Unreadable as error:
        print(error.line())
assert not {"bs4", "markdownify", "pypdf"} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "fine",
        f"reading HTML requires further packages ({extras.install('documents')})",
        f"reading PDF requires further packages ({extras.install('documents')})",
    ]


def test_a_reader_says_what_it_needs() -> None:
    assert Reader("x", "a:b", (".x",), 1, needs=("no_such_package",)).missing
    assert not READERS["text"].missing
