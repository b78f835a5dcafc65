"""What every provider's row promises, run over the whole table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

import pytest

from dslc.blocks import settings_of
from runtime.rows import by_name
from runtime.webhooks import PROVIDERS, Provider, Refused, Verified, prepare, sign, verify

NOW = 1_700_000_000
SECRET = "a secret of some length"
BODY = b'{"id": "evt_1", "type": "thing.made", "n": 1}'

Pairs = list[tuple[str, str]]


@dataclass(frozen=True)
class Case:
    """A row, with options where it has any."""

    name: str
    options: Mapping[str, object] = field(default_factory=dict)

    @property
    def row(self) -> Provider:
        return PROVIDERS[self.name].configured(self.options)

    @property
    def timed(self) -> bool:
        return self.row.scheme.tolerance is not None

    def sign(self, *, now: float = NOW, secret: str = SECRET, body: bytes = BODY) -> Pairs:
        return sign(self.name, secret, body, now=now, delivery_id="delivery-1", event="made", options=self.options)

    def verify(
        self, headers: Pairs, *, body: bytes = BODY, now: float = NOW, secrets: tuple[str, ...] = (SECRET,)
    ) -> Verified:
        return verify(self.name, secrets, headers, body, now=now, options=self.options)

    def refusal(self, headers: Pairs, **changes: object) -> Refused:
        with pytest.raises(Refused) as caught:
            self.verify(headers, **changes)  # type: ignore[arg-type]
        return caught.value

    def signature(self, headers: Pairs) -> int:
        """Where the header with the signature stands: the one that another secret changes."""
        other = self.sign(secret="another secret")
        return next(index for index, (mine, theirs) in enumerate(zip(headers, other, strict=True)) if mine != theirs)


CASES = [
    *(Case(name) for name in PROVIDERS),
    Case("custom", {"header": "X-Sig", "prefix": "v1=", "encoding": "base64", "algorithm": "sha512"}),
    Case("custom", {"payload": "{timestamp}.{body}", "timestamp_header": "X-Time", "tolerance": "1m"}),
    Case(
        "custom",
        {
            "payload": "{id}.{timestamp}.{body}",
            "id_header": "X-Id",
            "timestamp_header": "X-Time",
            "event_header": "X-Event",
            "algorithm": "sha1",
        },
    ),
]
TIMED = [case for case in CASES if case.timed]


def label(case: Case) -> str:
    return "-".join((case.name, *map(str, case.options.values())))


every = pytest.mark.parametrize("case", CASES, ids=label)
timed = pytest.mark.parametrize("case", TIMED, ids=label)


def changed(headers: Pairs, index: int, change: Callable[[str], str]) -> Pairs:
    name, value = headers[index]
    return [*headers[:index], (name, change(value)), *headers[index + 1 :]]


@every
def test_what_the_provider_signs_is_accepted(case: Case) -> None:
    verified = case.verify(case.sign())
    assert verified.secret_index == 0
    assert verified.mac
    assert verified.timestamp == (NOW if case.timed else None)


@every
def test_header_names_are_found_in_any_case(case: Case) -> None:
    assert case.verify([(name.swapcase(), value) for name, value in case.sign()]) == case.verify(case.sign())


@every
def test_other_headers_do_not_matter(case: Case) -> None:
    extra = [("Host", "h"), ("Accept", "*/*"), ("Accept", "a"), ("X-Ünïcode", "ü")]
    assert case.verify([*extra, *case.sign()]) == case.verify(case.sign())


@every
def test_white_space_around_a_header_is_no_part_of_it(case: Case) -> None:
    assert case.verify([(name, f" \t{value}\t ") for name, value in case.sign()]) == case.verify(case.sign())


@every
@pytest.mark.parametrize(
    "body",
    [BODY + b"\n", BODY[:-1], BODY.replace(b"1}", b"2}"), BODY.replace(b" ", b""), b"", b"\xef\xbb\xbf" + BODY],
    ids=["longer", "truncated", "tampered", "re-serialised", "empty", "byte-order mark"],
)
def test_another_body_is_refused(case: Case, body: bytes) -> None:
    assert case.refusal(case.sign(), body=body).reason == "signature_mismatch"


@every
def test_another_secret_is_refused(case: Case) -> None:
    assert case.refusal(case.sign(secret="another secret")).reason == "signature_mismatch"
    assert case.refusal(case.sign(secret=SECRET + "\n")).reason == "signature_mismatch"


@every
def test_a_request_without_the_signature_is_told_so(case: Case) -> None:
    headers = case.sign()
    del headers[case.signature(headers)]
    refused = case.refusal(headers)
    assert (refused.reason, refused.status, refused.shown) == ("missing_signature", 401, "missing_signature")
    assert case.refusal([]).status == 401


@every
@pytest.mark.parametrize(
    "change",
    [
        lambda value: "",
        lambda value: value[:-1],
        lambda value: value + "0",
        lambda value: value[1:],
        lambda value: value.swapcase(),
        lambda value: value.upper(),
        lambda value: value.replace("=", "= ", 1) if "=" in value.rstrip("=") else " " + value[:5] + " " + value[5:],
        lambda value: value + "\u00e9",
        lambda value: value + "\udce9",
        lambda value: value + "\x00",
        lambda value: "".join(chr(ord(each) + 0xFEE0) if each.isdigit() else each for each in value) + "\uff11",
        lambda value: f"{value}, {value}",
        lambda value: "=" * len(value),
    ],
    ids=[
        "empty", "truncated", "longer", "beheaded", "other case", "upper case", "inner space", "latin", "surrogate",
        "nul", "full-width digits", "joined by a proxy", "equals signs",
    ],
)  # fmt: skip
def test_a_signature_written_otherwise_is_refused(case: Case, change: Callable[[str], str]) -> None:
    headers = case.sign()
    assert case.refusal(changed(headers, case.signature(headers), change)).status == 401


@every
@pytest.mark.parametrize("good_first", [True, False])
def test_a_signature_sent_twice_is_refused(case: Case, good_first: bool) -> None:
    headers = case.sign()
    at = case.signature(headers)
    wrong = case.sign(secret="another secret")[at]
    doubled = [*headers, wrong] if good_first else [wrong, *headers]
    assert case.refusal(doubled).reason == "ambiguous_signature"
    assert case.refusal([*headers, headers[at]]).reason == "ambiguous_signature"


@every
def test_headers_that_say_event_or_id_are_refused_when_sent_twice(case: Case) -> None:
    headers = case.sign()
    for source in (*case.row.event, *case.row.delivery_id):
        if source.startswith("header:"):
            name = source.removeprefix("header:")
            assert case.refusal([*headers, (name, "another")]).reason in {"ambiguous_header", "ambiguous_signature"}


@every
def test_a_header_that_says_event_or_id_in_no_plain_text_is_refused(case: Case) -> None:
    headers = case.sign()
    for index, (name, _) in enumerate(headers):
        if f"header:{name}" in (*case.row.event, *case.row.delivery_id):
            for wrong in ("\udcff", "é", "a\x00b", "a\x1bb", "x" * 256):
                assert case.refusal(changed(headers, index, lambda _, wrong=wrong: wrong)).status in {400, 401}  # type: ignore[misc]


@every
def test_each_secret_is_tried_and_the_one_that_matched_is_named(case: Case) -> None:
    headers = case.sign()
    assert case.verify(headers, secrets=("old", SECRET)).secret_index == 1
    assert case.verify(headers, secrets=(SECRET, "new")).secret_index == 0
    assert case.refusal(headers, secrets=("old", "new")).reason == "signature_mismatch"


@every
@pytest.mark.parametrize("blank", ["", " ", "\t\n", "\u00a0", "\x00", b"", b"\x00\x00 "])
def test_a_blank_secret_never_verifies(case: Case, blank: str | bytes) -> None:
    for secrets in ([blank], [SECRET, blank]):
        with pytest.raises(ValueError, match="empty or blank"):
            prepare(case.name, secrets, case.options)
        with pytest.raises(ValueError, match="empty or blank"):
            verify(case.name, secrets, case.sign(), BODY, now=NOW, options=case.options)
    with pytest.raises(ValueError, match="no secret"):
        prepare(case.name, [], case.options)


@timed
@pytest.mark.parametrize("side", [-1, 1], ids=["stale", "future"])
def test_a_timestamp_counts_up_to_its_tolerance_and_not_beyond(case: Case, side: int) -> None:
    tolerance = case.row.scheme.tolerance
    assert tolerance is not None
    headers = case.sign()
    assert case.verify(headers, now=NOW - side * tolerance).timestamp == NOW
    refused = case.refusal(headers, now=NOW - side * (tolerance + 0.001))
    assert refused.reason == ("future" if side > 0 else "stale")


@timed
def test_only_a_valid_signature_learns_that_its_time_is_wrong(case: Case) -> None:
    refused = case.refusal(case.sign(secret="another secret"), now=NOW + 10_000)
    assert (refused.reason, refused.shown) == ("signature_mismatch", "invalid_signature")


@timed
@pytest.mark.parametrize(
    "text",
    ["", "-1", "+1700000000", "1700000000.0", "01700000000", "1_700_000_000", "1e9", "1700 000000",
     "１７００００００００", "1" * 40, "0x6553f100", "1700000000\x00", "²"],
)  # fmt: skip
def test_a_timestamp_that_is_no_canonical_integer_is_refused(case: Case, text: str) -> None:
    headers = [(name, value.replace(str(NOW), text)) for name, value in case.sign()]
    assert case.refusal(headers).status == 401


@timed
def test_a_timestamp_sent_twice_is_refused(case: Case) -> None:
    for name, value in case.sign():
        if value == str(NOW):
            assert case.refusal([*case.sign(), (name, str(NOW + 1))]).reason == "ambiguous_signature"


@timed
def test_a_timestamp_moved_is_refused(case: Case) -> None:
    headers = [(name, value.replace(str(NOW), str(NOW + 1))) for name, value in case.sign()]
    assert case.refusal(headers).reason == "signature_mismatch"


@every
def test_the_mac_is_the_same_whatever_text_carried_it(case: Case) -> None:
    first, second = case.verify(case.sign()), case.verify([*case.sign(), ("X-Other", "1")], secrets=("x", SECRET))
    assert first.mac == second.mac
    assert isinstance(first.mac, bytes)
    assert first.mac != case.verify(case.sign(body=b"{}"), body=b"{}").mac


@every
def test_bodies_that_are_not_text_verify_as_they_are(case: Case) -> None:
    for body in (b"", bytes(range(256)), b"\xef\xbb\xbf{}", b"[" * 100_000, b"NaN"):
        assert case.verify(case.sign(body=body), body=body).mac


@every
def test_event_and_id_are_read_where_the_row_says(case: Case) -> None:
    verified = case.verify(case.sign())
    row = case.row
    from_header = {True: ("made", "delivery-1"), False: ("thing.made", "evt_1")}
    if row.event:
        assert verified.event == from_header[row.event[0].startswith("header:")][0]
    else:
        assert verified.event is None
    if row.delivery_id and row.name != "slack":
        assert verified.delivery_id == from_header[row.delivery_id[0].startswith("header:")][1]
    if not row.delivery_id:
        assert verified.delivery_id is None


@every
def test_the_row_is_ready_for_the_catalogue(case: Case) -> None:
    row = PROVIDERS[case.name]
    assert row.title
    assert row.doc.endswith(".")
    assert row.doc_url is None or urlsplit(row.doc_url).scheme == "https"
    assert "body" in row.signed
    assert row.methods
    if row.options is not None:
        assert all(setting.doc for setting in settings_of(row.options))


def test_a_row_that_stands_twice_is_named() -> None:
    with pytest.raises(ValueError, match="provider github stands in the table twice"):
        by_name("provider", [PROVIDERS["github"], replace(PROVIDERS["github"], title="Another")])


def test_each_row_is_found_by_its_name() -> None:
    assert all(name == row.name for name, row in PROVIDERS.items())


def test_an_unknown_provider_is_an_error_with_the_nearest_name() -> None:
    with pytest.raises(ValueError, match="did you mean github"):
        verify("githup", [SECRET], [], b"", now=NOW)
