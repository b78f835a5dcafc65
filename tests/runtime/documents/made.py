"""Write PDF files: a page is the lines of its text."""

from __future__ import annotations

from collections.abc import Sequence

HELVETICA = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"


def pdf(*pages: Sequence[str], title: str | None = None, trailer: bytes = b"") -> bytes:
    """Return a PDF 1.4 file with these pages of lines (ISO 32000-1, section 7.5)."""
    kids = b" ".join(b"%d 0 R" % (5 + 2 * number) for number in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(pages)),
        HELVETICA,
        b"<< /Title (%s) >>" % (title or "").encode("latin-1"),
    ]
    for number, lines in enumerate(pages):
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R"
            b" /Resources << /Font << /F1 3 0 R >> >> >>" % (6 + 2 * number)
        )
        shown = b"".join(b"(%s) Tj T*\n" % _escaped(line) for line in lines)
        content = b"BT /F1 12 Tf 14 TL 72 720 Td\n" + shown + b"ET"
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content))
    return _file(objects, trailer)


def _escaped(line: str) -> bytes:
    raw = line.encode("cp1252")
    return raw.replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")


def _file(objects: Sequence[bytes], trailer: bytes) -> bytes:
    made = b"%PDF-1.4\n"
    places = []
    for number, content in enumerate(objects, 1):
        places.append(len(made))
        made += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    start = len(made)
    made += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    made += b"".join(b"%010d 00000 n \n" % place for place in places)
    about = b"<< /Size %d /Root 1 0 R /Info 4 0 R %s >>" % (len(objects) + 1, trailer)
    return made + b"trailer\n%s\nstartxref\n%d\n%%%%EOF\n" % (about, start)
