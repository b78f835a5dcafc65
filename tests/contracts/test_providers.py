"""The contract of providers, for every row of the table."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from dslc.blocks.setting import settings_of
from runtime.webhooks.providers import PROVIDERS
from runtime.webhooks.providers.description import describe
from runtime.webhooks.providers.summaries import all_summaries, summary_paths
from runtime.webhooks.request.field_source import BODY as BODY_ID
from runtime.webhooks.request.field_source import header_name
from runtime.webhooks.request.headers import Headers
from runtime.webhooks.request.json_path import compile_path
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.request.request import WebhookRequest
from runtime.webhooks.schemes.hmac import Hmac
from runtime.webhooks.schemes.scheme import UnsignedRequest
from runtime.webhooks.schemes.timestamp import write_time
from tests.cases import each_case
from tests.contracts.provider_cases import (
    BODY,
    DELIVERY,
    EVENT,
    NOW,
    UNSIGNABLE,
    URL,
    Case,
    addressed,
    bodied,
    changed,
    every,
    hashed,
    headed,
    label,
    signed_at,
    timed,
)
from tests.signatures import prepare, verify

# Timestamps that `int` or `float` might accept, and that no sender of times as text writes.
NOT_NUMBERS = (
    "", "-1", "+{}", "{}.0", "0{}", " {}x", "{}e0", "1_700_000_000", "1e9", "0x6553f100", "²", "{}\x00", "1" * 40,
)  # fmt: skip

NOT_TIMES = (
    "2023-11-14 22:13:20Z", "2023-11-14t22:13:20z", "20231114T221320Z", "2023-11-14T22:13:20", "2023-11-14T22:13Z",
    "2023-11-14T22:13:60Z", "2023-11-14T24:13:20Z", "2023-11-14T22:13:20+0000", str(NOW),
)  # fmt: skip
DOWNGRADES = (("v1", "v0"), ("v0", "v1"), ("sha256=", "sha1="), ("sha1=", "md5="), ("h1=", "h0="), ("v1,", "v1a,"))


@every
def test_what_the_provider_signs_is_accepted(case: Case) -> None:
    verified = case.verify(*case.sent())
    assert verified.secret_index == (0 if not case.row.keyless else verified.secret_index)
    assert verified.mac
    assert verified.timestamp == (NOW if case.timed else None)


@every
def test_a_template_is_parsed_once_and_not_for_each_request(case: Case) -> None:
    headers, body = case.sent()
    check = prepare(case.name, () if case.row.keyless else (case.secret,), case.options).check
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.delattr("runtime.webhooks.schemes.template.read_template")
        assert check(WebhookRequest(Headers(headers), body, url=URL, keys=case.keys), NOW).mac


@every
def test_header_names_are_found_in_any_case(case: Case) -> None:
    headers, body = case.sent()
    assert (
        case.verify([(name.swapcase(), value) for name, value in headers], body).mac == case.verify(headers, body).mac
    )


@every
def test_other_headers_do_not_matter(case: Case) -> None:
    headers, body = case.sent()
    extra = [("Host", "h"), ("Accept", "*/*"), ("Accept", "a"), ("X-Ünïcode", "ü")]
    assert case.verify([*extra, *headers], body).mac == case.verify(headers, body).mac


@every
def test_white_space_around_a_header_is_no_part_of_it(case: Case) -> None:
    headers, body = case.sent()
    spaced = [(name, f" \t{value}\t ") for name, value in headers]
    assert case.verify(spaced, body).mac == case.verify(headers, body).mac


@bodied
def test_another_body_is_refused(case: Case) -> None:
    headers, body = case.sent()
    other_digit = re.sub(rb"\d", lambda digit: b"%d" % ((int(digit[0]) + 1) % 10), body, count=1)
    other_letter = body.replace(b"e", b"E", 1)
    for other in (body + b"\n", body[:-1], other_digit, other_letter, b"", b"\xef\xbb\xbf" + body, b"{}" + body):
        refused = case.refusal(headers, other)
        assert (refused.status, refused.reason) == (401, "signature_mismatch"), other


@every
def test_another_secret_is_refused(case: Case) -> None:
    refused = case.refusal(*case.sent(secret=case.other))
    assert (refused.status, refused.shown) == (401, "invalid_signature")


@headed
def test_a_request_without_the_proof_is_told_so(case: Case) -> None:
    headers, body = case.sent()
    at = case.proof(headers)
    for without in (headers[:at] + headers[at + 1 :], changed(headers, at, lambda value: ""), []):
        refused = case.refusal(without, body)
        assert (refused.reason, refused.status, refused.shown) == ("missing_signature", 401, "missing_signature")


@every
def test_each_header_that_the_proof_needs_is_needed_once_and_filled(case: Case) -> None:
    headers, body = case.sent()
    fixed = {"content-type", *(name.lower() for source in (*case.row.event, *case.row.delivery_id)
                               if (name := header_name(source)))}  # fmt: skip
    for index, (name, value) in enumerate(headers):
        if name.lower() not in fixed:
            assert case.refusal(headers[:index] + headers[index + 1 :], body).status == 401
            assert case.refusal(changed(headers, index, lambda _: " "), body).status == 401
            assert case.refusal([*headers, (name, value)], body).reason == "ambiguous_signature"


OTHER_FORMS: tuple[Callable[[str], str], ...] = (
    lambda proof: proof[:-1],
    lambda proof: proof + "0",
    lambda proof: proof[1:],
    str.swapcase,
    str.upper,
    lambda proof: proof.replace("=", "= ", 1) if "=" in proof.rstrip("=") else proof[:5] + " " + proof[5:],
    lambda proof: proof + "\u00e9",
    lambda proof: proof + "\udce9",
    lambda proof: proof + "\x00",
    lambda proof: "".join(chr(ord(each) + 0xFEE0) if each.isdigit() else each for each in proof) + "\uff11",
    lambda proof: "=" * len(proof),
    lambda proof: proof.rstrip("=") if proof.endswith("=") else proof + "=",
    lambda proof: proof.replace("+", "-").replace("/", "_") + "_",
)


@headed
def test_a_proof_written_otherwise_is_refused(case: Case) -> None:
    headers, body = case.sent()
    at, scheme = case.proof(headers), case.row.scheme
    proof = headers[at][1]
    for other in {change(proof) for change in OTHER_FORMS} - {proof}:
        request = changed(headers, at, lambda _, other=other: other)  # type: ignore[misc]
        if isinstance(scheme, Hmac) and scheme.lenient and _alike(other, proof, scheme):
            assert case.verify(request, body).mac == case.verify(headers, body).mac, other
        else:
            assert case.refusal(request, body).status == 401, other


def _alike(text: str, other: str, scheme: Hmac) -> bool:
    """Whether a lenient scheme reads both texts alike."""
    prefix = scheme.form.write("", "")
    if not text.startswith(prefix):
        return False
    here, there = (each.removeprefix(prefix).lstrip() for each in (text, other))
    return here == there or (scheme.encoding == "hex" and here.lower() == there.lower())


@headed
def test_whatever_else_stands_beside_a_proof_makes_no_second_replay_key(case: Case) -> None:
    headers, body = case.sent()
    at, macs = case.proof(headers), {case.verify(headers, body).mac}
    value = headers[at][1]
    lists = [each for each in (", ", ",", ";", " ") if each in value] or [","]
    parts = value.split(lists[0])
    texts = [lists[0].join(reversed(parts)), value.upper(), value.title()]
    for junk in ("v1=junk", "v1,junk", "v9=junk", "h1=junk", "x=1", parts[-1], "junk"):
        texts += [f"{value}{separator}{junk}" for separator in (",", ", ", ";", " ")]
        texts += [f"{junk}{separator}{value}" for separator in (",", ", ", ";", " ")]
    accepted, statuses = 0, set()
    for text in texts:
        try:
            macs.add(case.verify(changed(headers, at, lambda _, text=text: text), body).mac)  # type: ignore[misc]
            accepted += 1
        except RefusedRequest as refused:
            statuses.add(refused.status)
    assert len(macs) == 1, accepted
    assert statuses <= {401}


@headed
def test_a_proof_sent_twice_is_refused(case: Case) -> None:
    headers, body = case.sent()
    at = case.proof(headers)
    wrong = case.sent(secret=case.other)[0][at]
    for doubled in ([*headers, wrong], [wrong, *headers], [*headers, headers[at]]):
        assert case.refusal(doubled, body).reason == "ambiguous_signature"


@every
def test_headers_that_say_event_or_id_are_refused_when_sent_twice(case: Case) -> None:
    headers, body = case.sent()
    for source in (*case.row.event, *case.row.delivery_id):
        name = header_name(source)
        if name is not None and any(name.lower() == sent.lower() for sent, _ in headers):
            refused = case.refusal([*headers, (name, "another")], body)
            assert refused.reason in {"ambiguous_header", "ambiguous_signature"}


@every
def test_a_header_that_says_event_or_id_in_no_plain_text_is_refused(case: Case) -> None:
    headers, body = case.sent()
    for index, (name, _) in enumerate(headers):
        if f"header:{name}" in (*case.row.event, *case.row.delivery_id):
            for wrong in ("\udcff", "é", "a\x00b", "a\x1bb", "x" * 256):
                altered = changed(headers, index, lambda _, wrong=wrong: wrong)  # type: ignore[misc]
                assert case.refusal(altered, body).status in {400, 401}


@every
def test_each_secret_is_tried_and_the_one_that_matched_is_named(case: Case) -> None:
    if case.row.keyless:
        return
    headers, body = case.sent()
    assert case.verify(headers, body, secrets=(case.other, case.secret)).secret_index == 1
    assert case.verify(headers, body, secrets=(case.secret, case.other)).secret_index == 0
    assert case.refusal(headers, body, secrets=(case.other, case.other)).shown == "invalid_signature"


@every
def test_a_blank_secret_never_verifies(case: Case) -> None:
    if case.row.keyless:
        return
    blanks: tuple[str | bytes, ...] = ("", " ", "\t\n", "\u00a0", "\x00", b"", b"\x00\x00 ")
    for blank in blanks:
        for secrets in ([blank], [case.secret, blank]):
            with pytest.raises(ValueError, match="empty or blank"):
                prepare(case.name, secrets, case.options)
    with pytest.raises(ValueError, match="no secret"):
        prepare(case.name, [], case.options)


PUBLIC = (
    "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA\n-----END PUBLIC KEY-----\n",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIP somebody",
    "whpk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
)


@every
def test_a_public_key_is_never_the_key_of_an_hmac(case: Case) -> None:
    proof = describe(case.row).proof
    if not proof.startswith(("HMAC", "JWT, HS")) or "token" in proof:
        return  # the shown text may be any
    for public in PUBLIC:
        for secrets in ([public], [case.secret, public]):
            with pytest.raises(ValueError, match="the secret is") as caught:
                prepare(case.name, secrets, case.options)
            assert public[:20] not in str(caught.value)


@timed
def test_a_timestamp_counts_up_to_its_tolerance_and_not_beyond(case: Case) -> None:
    tolerance = case.row.scheme.tolerance
    assert tolerance is not None
    headers, body = case.sent()
    for side, reason in ((1, "future"), (-1, "stale")):
        assert case.verify(headers, body, now=NOW - side * tolerance).timestamp == NOW
        assert case.refusal(headers, body, now=NOW - side * (tolerance + 0.001)).reason == reason


@timed
def test_only_a_valid_proof_learns_that_its_time_is_wrong(case: Case) -> None:
    refused = case.refusal(*case.sent(secret=case.other), now=NOW + 10_000)
    assert refused.shown == "invalid_signature"


@hashed
def test_a_rightly_signed_timestamp_is_refused_unless_it_is_the_one_way_to_write_a_number(case: Case) -> None:
    scheme = case.row.scheme
    if not case.timed or not isinstance(scheme, Hmac):
        return
    written = write_time(NOW, scheme.unit)
    assert case.verify(*signed_at(case, written)).timestamp == NOW
    wide = "".join(chr(ord(each) + 0xFEE0) if each.isdigit() else each for each in written)
    times = [text.format(written) for text in NOT_NUMBERS]
    if scheme.unit == "rfc3339":
        times += NOT_TIMES
    elif scheme.unit == "s":
        times.append(f"{NOW}000")
    else:
        times.append(str(NOW))
    for text in (*times, wide):
        assert case.refusal(*signed_at(case, text)).status in {400, 401}, text


@timed
def test_a_timestamp_moved_is_refused(case: Case) -> None:
    headers, body = case.sent()
    later, _ = case.sent(now=NOW + 1)
    for index, (name, value) in enumerate(headers):
        if later[index][1] != value and index != case.proof(headers) if case.in_header else False:
            moved = changed(headers, index, lambda _, index=index: later[index][1])  # type: ignore[misc]
            assert case.refusal(moved, body).reason == "signature_mismatch", name


@headed
def test_an_older_version_or_a_weaker_hash_never_counts(case: Case) -> None:
    headers, body = case.sent()
    at, scheme = case.proof(headers), case.row.scheme
    value = headers[at][1]
    for old, new in DOWNGRADES:
        if old in value:
            older = (headers[at][0], value.replace(old, new))
            assert case.refusal([*headers[:at], older, *headers[at + 1 :]], body).status == 401
    if isinstance(scheme, Hmac) and scheme.algorithm != "sha1":
        weaker = replace(scheme, algorithm="sha1").sign(
            case.secret.encode(), UnsignedRequest(body, NOW, DELIVERY, "POST", URL)
        )
        [weak] = [text for name, text in weaker if name == scheme.header]
        assert case.refusal(changed(headers, at, lambda _: weak), body).status == 401
        bare = weak.rpartition("=")[2] or weak
        assert case.refusal([("X-Hub-Signature", f"sha1={bare}")], body).status == 401


@addressed
def test_a_request_that_was_signed_for_another_url_is_refused(case: Case) -> None:
    headers, body = case.sent()
    for url in (URL + "&x=1", URL.replace("https", "http"), URL.partition("?")[0], URL.replace("hooks.", "other."), ""):
        assert case.refusal(headers, body, url=url).reason == "signature_mismatch"
    assert case.refusal(headers, body, url=None).reason == "signature_mismatch"
    assert case.refusal([*headers, ("Host", "hooks.example")], body, url="https://other.example/").status == 401


@addressed
def test_a_sender_that_signs_the_url_is_not_mounted_without_one(case: Case) -> None:
    verifier = prepare(case.name, [case.secret], case.options)
    verifier.check_mountable(URL)
    with pytest.raises(ValueError, match="public_url"):
        verifier.check_mountable(None)


@every
def test_a_signed_method_is_the_one_of_the_request(case: Case) -> None:
    if "method" in case.row.signed:
        assert case.refusal(*case.sent(), method="PUT").reason == "signature_mismatch"


@hashed
def test_bodies_that_are_not_text_verify_as_they_are(case: Case) -> None:
    scheme = case.row.scheme
    assert isinstance(scheme, Hmac)
    if scheme.timestamp_path is not None or any(part.startswith("json:") for part in scheme.signed):
        return  # it signs values of the body, which must be JSON
    for body in (b"", bytes(range(256)), b"\xef\xbb\xbf{}", b"[" * 100_000, b"NaN"):
        headers, _ = case.sent(body=body)
        assert case.is_signed(headers, body) == body.startswith(scheme.begins)


@every
def test_a_handshake_reveals_nothing_to_a_delivery_and_changes_nothing(case: Case) -> None:
    handshake = case.row.handshake
    verifier = prepare(case.name, () if case.row.keyless else [case.secret], case.options)
    headers, body = case.sent()
    request = WebhookRequest(Headers(headers), body, "POST", URL)
    for signed in (True, False):
        assert verifier.handshake_response(request, verifier.payload(request), signed=signed) is None
    if handshake is not None and not handshake.signed:
        for query in ("challenge=<script>alert(1)</script>", "hub.mode=subscribe&hub.challenge=1", "crc_token=%7B%7D"):
            for method in handshake.methods:
                asked = WebhookRequest(Headers([]), b"", method, URL, query)
                answer = None
                with suppress(RefusedRequest):
                    answer = verifier.handshake_response(asked, verifier.payload(asked), signed=False)
                assert answer is None or b"<" not in answer.body


@every
def test_event_and_id_are_read_where_the_row_says(case: Case) -> None:
    verified = case.verify(*case.sent())
    row = case.row
    if row.event and header_name(row.event[0]):
        assert verified.event == EVENT
    if row.delivery_id and header_name(row.delivery_id[0]):
        assert verified.delivery_id == DELIVERY
    if not row.event:
        assert verified.event is None
    if not row.delivery_id:
        assert verified.delivery_id is None
    if row.event[:1] == ("$.type",) and case.body == BODY:
        assert verified.event == "thing.made"
    if row.delivery_id[:1] == ("$.id",) and case.body == BODY:
        assert verified.delivery_id == "evt_1"


@each_case("name", sorted(PROVIDERS))
def test_the_row_is_ready_for_the_catalogue(name: str) -> None:
    row = PROVIDERS[name]
    assert row.title
    assert row.doc.endswith(".")
    assert "\n" not in row.doc
    assert row.doc_url is not None or name in {"custom", "swarmlet", "token"}
    assert row.doc_url is None or urlsplit(row.doc_url).scheme == "https"
    assert row.methods
    if row.event and header_name(row.event[0]):
        assert row.sample_event, "a test delivery must say what it is"
    for path in (path for paths in summary_paths(name).values() for path in paths):
        compile_path(path)
    if row.options is not None:
        assert all(setting.doc for setting in settings_of(row.options))


def test_every_vendor_says_what_happened_and_what_tells_it_from_a_copy() -> None:
    # Generic rows, for any sender; Dropbox sends identical bodies for two changes.
    general = {"basic", "custom", "dropbox", "jwt", "swarmlet", "token"}
    assert {name for name, row in PROVIDERS.items() if not row.event} == general
    untold = {name for name, row in PROVIDERS.items() if not row.delivery_id and row.scheme.tolerance is None}
    assert untold == general - {"swarmlet"}


@every
def test_where_the_body_is_the_id_only_the_same_body_is_a_copy(case: Case) -> None:
    if BODY_ID not in case.row.delivery_id:
        return
    other = case.body.replace(b"made", b"unmade")
    first, again = (case.verify(*case.sent(now=now), now=now).delivery_id for now in (NOW, NOW + 1))
    assert first == again
    assert case.verify(*case.sent(body=other)).delivery_id not in {first, None}


def test_a_row_that_nobody_here_can_sign_for_has_tests_of_its_own() -> None:
    assert {label(case) for case in UNSIGNABLE} == set()


def test_each_row_is_found_by_its_name() -> None:
    assert all(name == row.name for name, row in PROVIDERS.items())
    assert set(all_summaries()) <= set(PROVIDERS)


def test_an_unknown_provider_is_an_error_with_the_nearest_name() -> None:
    with pytest.raises(ValueError, match="did you mean github"):
        verify("githup", ["a secret"], [], b"", now=NOW)
