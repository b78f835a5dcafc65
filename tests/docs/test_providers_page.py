"""The page about providers agrees with the table for every row."""

from __future__ import annotations

import re

from runtime.generate.provider_docs import PAGE, render
from runtime.webhooks.providers import PROVIDERS
from runtime.webhooks.schemes.scheme import Scheme

TEXT = PAGE.read_text(encoding="utf-8")


def test_the_table_is_what_the_rows_say() -> None:
    assert render(TEXT) == TEXT, "run `python -m runtime.generate.provider_docs`"


def test_every_sender_has_a_line_of_its_own() -> None:
    assert re.findall(r"^\| `([a-z0-9-]+)` \|", TEXT, re.MULTILINE) == sorted(PROVIDERS)


def test_the_notes_name_senders_that_there_are() -> None:
    notes = TEXT.partition("## The secret")[2]
    for line in re.findall(r"^- ((?:`[a-z0-9-]+`(?:, | and )?)+)", notes, re.MULTILINE):
        assert set(re.findall(r"`([a-z0-9-]+)`", line)) <= set(PROVIDERS)


def section(title: str) -> set[str]:
    text = TEXT.partition(f"## {title}\n")[2].partition("\n## ")[0]
    return set(re.findall(r"`([a-z0-9-]+)`", text)) & set(PROVIDERS)


def test_all_that_sign_the_url_or_with_sha1_are_told_of() -> None:
    def with_sha1(scheme: Scheme) -> bool:
        return getattr(scheme, "algorithm", None) == "sha1"

    assert section("Senders that sign their URL") == {name for name, row in PROVIDERS.items() if "url" in row.signed}
    assert section("SHA-1") >= {name for name, row in PROVIDERS.items() if with_sha1(row.scheme)}


def test_all_that_want_another_answer_than_202_are_told_of() -> None:
    assert section("Answers") == {name for name, row in PROVIDERS.items() if row.answer}


def test_all_that_ask_by_get_or_head_are_told_of() -> None:
    asked = {n for n, row in PROVIDERS.items() if row.handshake and {"GET", "HEAD"} & set(row.handshake.methods)}
    assert asked - {"okta"} <= section("Handshakes")
