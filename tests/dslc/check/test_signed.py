"""Warnings about unsigned values, by the provider's data in the catalog."""

from __future__ import annotations

import pytest

from dslc.catalog import Catalog, CatalogEntry
from dslc.compiler import analyse
from dslc.setting import Setting
from dslc.source import Source
from tests.dslc.catalogs import BLOCKS

_OPTIONS = (
    Setting("payload", "string", default="{body}"),
    Setting("body_claim", "string"),
    Setting("event_header", "string"),
    Setting("compressed", "string"),
)


def warned(filters: str, options: str = "", **row: object) -> list[str]:
    """Return the codes for a webhook with these filters and this provider."""
    provider = CatalogEntry("them", options=_OPTIONS, **row)  # type: ignore[arg-type]
    catalog = Catalog({"provider": (provider,), "secret": (CatalogEntry("env"),)}, BLOCKS)
    text = f'webhook w {{ path "/w" provider them {{ {options} }} secret "secret://env/A" {filters} }}'
    return [each.code for each in analyse([Source("w", text)], catalog).diagnostics]


BODY = 'filter { json_path "$.a" equals 1 }'
HEADER = 'filter { header "X-A" equals 1 }'


@pytest.mark.parametrize(
    ("filters", "options", "row", "codes"),
    [
        (BODY, "", {"signed": ("body",)}, []),
        (BODY, "", {"signed": ("id", "timestamp")}, ["P504"]),
        (BODY, "", {"signed": None}, []),
        (HEADER, "", {"signed": None}, []),
        (HEADER, "", {"signed": ("body",)}, ["P504"]),
        (HEADER, "", {"signed": ("header:x-a",)}, []),
        (HEADER, "", {"signed": ("body", "header:X-A")}, []),
        # A template names the signed values.
        (BODY, 'payload "{id}"', {"signed": ("body",), "signed_by": "payload"}, ["P504"]),
        (BODY, 'payload "{id}{body}"', {"signed": ("body",), "signed_by": "payload"}, []),
        # An option that is not a template means that the body is signed.
        (BODY, "", {"signed": (), "signed_by": "body_claim"}, ["P504"]),
        (BODY, 'body_claim "sha"', {"signed": (), "signed_by": "body_claim"}, []),
        # At any depth, and once per filter.
        ('filter { any { filter { json_path "$.a" equals 1 } filter { not { header "X-A" exists true } } } }', "",
         {"signed": ("body",)}, ["P504"]),
        ('filter { not { header "X-A" exists true } not { header "X-B" exists true } }', "", {"signed": ("body",)},
         ["P504"]),
    ],
)  # fmt: skip
def test_a_filter_on_what_is_not_signed_is_warned_about(
    filters: str, options: str, row: dict[str, object], codes: list[str]
) -> None:
    assert warned(filters, options, **row) == codes


@pytest.mark.parametrize(
    ("options", "row", "codes"),
    [
        ("", {"signed": ("body",), "event": ("header:X-Event",)}, []),  # names of the vendor
        ("", {"signed": ("body",), "event": ("$.type",)}, []),
        ("", {"signed": (), "event": ("$.type",)}, ["P504"]),
        ("", {"signed": (), "event": ("header:X-Event",)}, ["P504"]),
        ("", {"signed": ("header:x-event",), "event": ("header:X-Event",)}, []),
        ("", {"signed": None, "event": ("$.type",)}, []),
        ("", {"signed": ("body",), "event": None}, []),
        ("", {"signed": ("body",), "event": ()}, ["T405"]),
        ("", {"signed": ("body",), "event": (), "event_by": "event_header"}, ["T405"]),
        ('event_header "X-Event"', {"signed": ("body",), "event": (), "event_by": "event_header"}, ["P504"]),
        ('event_header "X-E"', {"signed": ("header:x-e",), "event": (), "event_by": "event_header"}, []),
    ],
)
def test_an_event_that_nobody_names_or_signs_is_told(options: str, row: dict[str, object], codes: list[str]) -> None:
    assert warned('event "a"', options, **row) == codes


@pytest.mark.parametrize(
    ("options", "codes"),
    [
        ('compressed "sent" payload "{json:$.id}.{body}"', ["T405"]),
        ('compressed "content" payload "{json:$.id}.{body}"', []),
        ('payload "{json:$.id}.{body}"', []),
        ('compressed "sent" payload "{timestamp}.{body}"', []),
        ('compressed "sent"', []),
    ],
)
def test_bytes_that_are_signed_compressed_have_no_values(options: str, codes: list[str]) -> None:
    assert warned("", options, signed=("body",)) == codes
