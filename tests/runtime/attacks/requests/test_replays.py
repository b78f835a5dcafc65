"""An accepted request is not accepted again, however its signature is rewritten; an unusual timestamp is refused."""

from __future__ import annotations

import os
import time

from tests.runtime.attacks.conftest import STRIPE_SECRET
from tests.runtime.attacks.wire import exchange, request, statuses, swarmlet_headers
from tests.runtime.daemon.running import Daemon
from tests.runtime.daemon.v1 import make_webhook

KEY = STRIPE_SECRET.encode()


def test_a_replay_is_known_by_its_mac_and_not_by_its_text(daemon: Daemon, token: str) -> None:
    made = make_webhook(daemon, token)
    assert made.secret is not None
    body = b'{"a":"%s"}' % os.urandom(6).hex().encode()
    signed = swarmlet_headers(body, made.secret.encode())
    when, mac = signed["t"], signed["v1"]
    assert daemon.request("POST", made.path, body, [("X-Swarmlet-Signature", f"t={when},v1={mac}")]).status == 202
    for value in (
        *(
            f"t={when},v1=junk,v1={mac}",
            f"t={when},v1={mac},v1=junk",
            f"v1={mac},t={when}",
            f"v1=junk,v1={mac},t={when}",
        ),
        *(f"t={when},v0=old,v1={mac}", f"x=1,t={when},v1={mac}", f"t={when},v1={mac},v1={mac}", f"t={when},v1={mac},="),
        *(f"t={when},v1={'0' * 64},v1={mac}", f"t={when},v1={mac},v9={os.urandom(4).hex()}"),
    ):
        for path in (made.path, f"{made.path}?x=1", f"{made.path}?"):
            for extra in ([], [("X-Forwarded-For", "203.0.113.9")], [("X-Request-Id", os.urandom(4).hex())]):
                answer = daemon.request("POST", path, body, [("X-Swarmlet-Signature", value), *extra])
                assert (answer.status, answer.json()["error"]) in {(401, "replayed"), (401, "invalid_signature")}
    again = daemon.request("POST", made.path, body, [("x-swarmlet-SIGNATURE", f"t={when},v1={mac}")])
    assert again.json()["error"] == "replayed"


# {} is replaced by the time in seconds.
NO_TIMES = (
    *("{}abc", "{} ", " {}", "+{}", "-{}", "0{}", "{}.0", "{}.5", "{}e0", "{}L", "{}000", "{}000000", "'{}'", "[{}]"),
    *("0x6553f100", "0o14524770400", "1_700_000_000", "17.0e8", "NaN", "Infinity", "", "0", "{}\u00a0", "\u200b{}"),
    *("9" * 15, "9" * 400, "1" * 5000, "18446744075409551616", "9223372038554775808", "{}\t", "\u00b9"),
)


def test_a_rightly_signed_time_that_is_not_written_as_one_is_refused(daemon: Daemon) -> None:
    """Only the sender's key is accepted. The request is raw bytes, because no client would send it."""
    now = str(int(time.time()))
    wide = [now.translate({48 + digit: zero + digit for digit in range(10)}) for zero in (0xFF10, 0x660, 0x1D7CE)]
    for when in (*(text.replace("{}", now) for text in NO_TIMES), *wide):
        body = b'{"id":"evt_%s"}' % os.urandom(6).hex().encode()
        mac = swarmlet_headers(body, KEY, when)["v1"]
        signed = request("/hooks/stripe", body, {"Stripe-Signature": "@"})
        for encoding in ("utf-8", "latin-1"):
            value = f"t={when},v1={mac}".encode(encoding, "replace")
            assert statuses(exchange(daemon, signed.replace(b"@", value))) == [401], (when, encoding)


def test_a_time_that_is_said_twice_is_refused(daemon: Daemon) -> None:
    now = int(time.time())
    body = b'{"id":"evt_%s"}' % os.urandom(6).hex().encode()
    late = swarmlet_headers(body, KEY, str(now - 10_000))
    for value in (
        f"t={now},t={late['t']},v1={late['v1']}",
        f"t={late['t']},t={now},v1={late['v1']}",
        f"t={late['t']},v1={late['v1']},t={now}",
    ):
        assert daemon.request("POST", "/hooks/stripe", body, [("Stripe-Signature", value)]).status == 401
