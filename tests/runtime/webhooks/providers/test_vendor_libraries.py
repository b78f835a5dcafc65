"""Requests that a vendor's own library accepts are accepted, those it refuses are refused; every difference is
listed."""

from __future__ import annotations

import importlib
import re
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from runtime.webhooks.schemes.hmac import Hmac
from runtime.webhooks.schemes.timestamp import write_time
from tests.contracts.provider_cases import OPTIONS, URL, Case, Pairs, changed, signed_at
from tests.runtime.webhooks.providers.vendors import LIBRARIES, Attempt, Library, published_now

Made = tuple[Pairs, bytes]
Variation = Callable[[Case, float], Made | None]
"""Return a request that is wrong in one way, or valid in an unusual form; None if a provider has no such variation."""


def proof(change: Callable[[str], str]) -> Variation:
    """Return the headers with the proof in another form."""

    def vary(case: Case, now: float) -> Made | None:
        headers, body = case.sent(now=now)
        if not case.in_header:
            return None
        at = next(i for i, (one, two) in enumerate(zip(headers, case.sent(now=now, secret=case.other)[0], strict=True))
                  if one != two)  # fmt: skip
        made = changed(headers, at, change)
        return None if made == headers else (made, body)

    return vary


def written(change: Callable[[str], str]) -> Variation:
    """Return a request with a timestamp in another form, signed in that form."""

    def vary(case: Case, now: float) -> Made | None:
        scheme = case.row.scheme
        if not isinstance(scheme, Hmac) or not case.timed or scheme.unit == "rfc3339":
            return None
        return signed_at(case, change(write_time(now, scheme.unit)), now)

    return vary


def payload(change: Callable[[bytes], bytes]) -> Variation:
    def vary(case: Case, now: float) -> Made:
        headers, body = case.sent(now=now)
        return headers, change(body)

    return vary


LABEL = re.compile(r"(^|[ ,;])(?:v0|v1|h1|sha256)([,=])")
OTHER_LETTERS = "mådé 😀".encode()


def wide(text: str) -> str:
    return "".join(chr(ord(each) + 0xFEE0) if each.isdigit() else each for each in text)


VARIATIONS: Mapping[str, Variation] = {
    "as it is sent": lambda case, now: case.sent(now=now),
    "a body with other letters": lambda case, now: case.sent(now=now, body=case.body.replace(b"made", OTHER_LETTERS)),
    "another secret": lambda case, now: case.sent(now=now, secret=case.other),
    "another address": lambda case, now: case.sent(now=now, url=URL + "x") if "url" in case.row.signed else None,
    "an hour old": lambda case, now: case.sent(now=now - 3600) if case.timed else None,
    "from the future": lambda case, now: case.sent(now=now + 3600) if case.timed else None,
    "a changed digit": payload(lambda body: body.replace(b"1", b"2", 1)),
    "a shorter body": payload(lambda body: body[:-1]),
    "a longer body": payload(lambda body: body + b" "),
    "upper case": proof(lambda value: value.upper()),
    "no padding": proof(lambda value: value.rstrip("=")),
    "the other base64": proof(lambda value: value.replace("+", "-").replace("/", "_")),
    "cut short": proof(lambda value: value[:-2]),
    "one letter more": proof(lambda value: value + "a"),
    "another version": proof(lambda value: LABEL.sub(r"\1v9\2", value)),
    "no version": proof(lambda value: LABEL.sub(r"\1", value)),
    "rubbish behind a comma": proof(lambda value: value + ",v1=junk"),
    "rubbish behind a space": proof(lambda value: value + " v1,junk"),
    "rubbish behind a semicolon": proof(lambda value: value + ";h1=junk"),
    "a fraction": written(lambda text: text + ".0"),
    "full-width digits": written(wide),
    "an underscore": written(lambda text: text[:4] + "_" + text[4:]),
    "a plus sign": written(lambda text: "+" + text),
    "a leading zero": written(lambda text: "0" + text),
    "no number": written(lambda text: "soon"),
}  # fmt: skip


def sender(library: Library) -> Case:
    return Case(library.provider, OPTIONS.get(library.provider, {}), published_now)


def taken_there(library: Library, module: Any, case: Case, made: Made) -> bool:
    headers = {name.lower(): value for name, value in made[0]}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return bool(library.takes(module, Attempt(headers, made[1], case.secret, URL)))
    except Exception:
        return False  # every library has its own exceptions for refusals


def loaded(library: Library) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module(library.module)
        except ImportError as error:
            pytest.skip(f"{library.module} is not installed ({error}); `.[vendors-large]` has it")


def expected(library: Library, name: str) -> set[tuple[bool, bool]]:
    """Return the possible verdicts on a variation: (theirs, ours)."""
    if name in library.lax:
        return {(True, False), (False, False)} if library.random else {(True, False)}
    return {(False, True)} if name in library.strict else {(True, True), (False, False)}


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.provider)
def test_the_verdict_is_the_vendors_own_or_the_difference_is_written_down(library: Library) -> None:
    module, case, now = loaded(library), sender(library), int(time.time())
    others = {}
    for name, vary in VARIATIONS.items():
        if (made := vary(case, now)) is not None:
            verdicts = taken_there(library, module, case, made), case.is_signed(*made, now=now)
            if verdicts not in expected(library, name) or (name == "as it is sent" and not all(verdicts)):
                others[name] = verdicts
    assert others == {}, "(theirs, ours)"
