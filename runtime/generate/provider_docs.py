"""`python -m runtime.generate.provider_docs` writes the table of senders in `docs/providers.md`."""

from __future__ import annotations

from pathlib import Path

from dslc.blocks.values.quantity import format_duration
from runtime.webhooks.providers import PROVIDERS
from runtime.webhooks.providers.description import describe
from runtime.webhooks.providers.provider import Provider

PAGE = Path(__file__).parents[2] / "docs" / "providers.md"
BEGIN, END = "<!-- the table: written by python -m runtime.generate.provider_docs -->", "<!-- the table ends -->"

_HEAD = (
    "| provider | sender | proof | in | secret | time | event | identified by | body | handshake |",
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
)


def table() -> str:
    """Return the table of providers, sorted by name, as Markdown."""
    return "\n".join((*_HEAD, *(_line(PROVIDERS[name]) for name in sorted(PROVIDERS))))


def _line(row: Provider) -> str:
    said = describe(row)
    cells = (
        f"`{row.name}`",
        row.title if row.doc_url is None else f"[{row.title}]({row.doc_url})",
        said.proof,
        ", ".join(f"`{name}`" for name in said.places) or "the body",
        said.secret or "none",
        "—" if said.tolerance is None else f"{format_duration(said.tolerance)}",
        said.event or "—",
        said.told_apart_by or "nothing",
        said.body_limit,
        said.handshake or "—",
    )
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def render(page: str) -> str:
    """Return `page` with the current table."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
