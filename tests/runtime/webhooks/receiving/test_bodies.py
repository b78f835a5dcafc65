"""Bodies and requests as senders really write them, over real HTTP: compressed, with files, by GET, with a token in the
URL, with a key twice, and not decodable."""

from __future__ import annotations

import base64
import gzip
import hashlib
import hmac
import json
import time
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.runtime.daemon.running import Answer, Daemon, contents, running, until
from tests.signatures import sign

TOKEN = "tok-4f7a/e+1"
IN_URL = "tok-4f7a%2Fe%2B1"

PROGRAM = """\
webhook content {
    path "/hooks/content"
    provider custom { header "X-Sig" compressed content }
    secret "secret://env/OWN"
    filter { json_path "$.action" equals "opened" }
    agent recorder
}
webhook sent {
    path "/hooks/sent"
    provider custom { header "X-Sig" compressed sent }
    secret "secret://env/OWN"
    filter { json_path "$.action" equals "opened" }
    agent recorder
}
webhook plain {
    path "/hooks/plain"
    provider custom { header "X-Sig" }
    secret "secret://env/OWN"
    agent recorder
}
webhook images {
    path "/hooks/images"
    provider token { parameter "key" }
    secret "secret://env/TOKEN"
    filter { json_path "$.thumb.content_type" equals "image/jpeg" }
    agent recorder
}
webhook calls {
    path "/hooks/calls"
    provider twilio
    secret "secret://env/OWN"
    public_url "https://hooks.example/hooks/calls"
    filter { json_path "$.Digits" equals "17" }
    agent recorder
}
webhook mail { path "/hooks/mail", provider mailgun, secret "secret://env/OWN", agent recorder }

webhook reviews {
    path "/hooks/reviews"
    provider github
    secret "secret://env/SENDER"
    event "pull_request.opened"
}

webhook any { path "/hooks/any", provider github, secret "secret://env/SENDER", agent notes }
webhook payments { path "/hooks/payments", provider stripe, secret "secret://env/SENDER" }
webhook issues { path "/hooks/issues", provider linear, secret "secret://env/SENDER" }

webhook own {
    path "/hooks/own"
    provider custom
    secret "secret://env/SENDER"
    filter { json_path "$.a" exists true }
}

webhook office { path "/hooks/office", provider microsoft-graph, secret "secret://env/SENDER" }
webhook subjects { path "/hooks/subjects", provider github, secret "secret://env/SENDER", agent keyed }
webhook noted { path "/hooks/noted", provider github, secret "secret://env/NOTED" }
webhook unmounted { path "/hooks/unmounted", secret "secret://env/UNSET_HERE" }

agent notes { instruction "Remember." }

agent keyed {
    instruction "Answer."
    model openai { url "http://127.0.0.1:9/v1" model "none" }
    thread keyed { json_path "$.issue" }
}

agent recorder {}
"""
TWICE = ("custom", "token", "basic", "jwt")
"""Providers whose bodies may have a key twice, if their webhook says so."""
SIGNED = {"payload": "{json:$.id}.{json:$.value}.{body}"}
SENDER = "name:a long secret of the sender, which JSON Web Tokens need"
SECRETS = {"OWN": "own-secret", "TOKEN": TOKEN, "SENDER": SENDER, "NOTED": "hunter2-of-github\n"}
JSON = json.dumps({"action": "opened", "text": "a" * 3000}).encode()
MARK = b"\xef\xbb\xbf"
UNREADABLE = [b'{"a":1', b"", b"<a/>", b'{"a":"\xff"}', b"NaN"]


def _webhook(path: str, provider: str, options: str) -> str:
    more = 'algorithms "HS256" max_age 5m' if provider == "jwt" else ""
    return f"""\
webhook {path} {{
    path "/hooks/{path}"
    provider {provider} {{ {options} {more} }}
    secret "secret://env/SENDER"
    filter {{ json_path "$.value" equals 2 }}
    agent notes
}}
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    blocks = [_webhook(each, each, "") for each in TWICE]
    blocks += [_webhook(f"{each}-last", each, "duplicate_keys last") for each in TWICE]
    blocks.append(_webhook("signed-last", "custom", f'duplicate_keys last payload "{SIGNED["payload"]}"'))
    root = tmp_path_factory.mktemp("bodies")
    (root / "program.symbiont").write_text(PROGRAM + "".join(blocks))
    with running(root, "program.symbiont", wait=True, SYMBIONT_LOG_LEVEL="debug", **SECRETS) as started:
        yield started


def mac(data: bytes, algorithm: str = "sha256") -> bytes:
    return hmac.digest(b"own-secret", data, algorithm)


def post(daemon: Daemon, path: str, body: bytes, *headers: tuple[str, str], method: str = "POST") -> Answer:
    return daemon.request(method, path, body, list(headers))


def shown(daemon: Daemon, answer: Answer) -> dict[str, Any]:
    """Return the stored delivery."""
    found: dict[str, Any] = json.loads(daemon.symbi("webhook", "show", answer.json()["delivery_id"], "--json").stdout)
    return found


def multipart(**fields: str) -> tuple[bytes, tuple[str, str]]:
    """Return a form with these texts and a file, and its content type."""
    texts = [f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{text}\r\n' for name, text in fields.items()]
    head = '--b\r\nContent-Disposition: form-data; name="thumb"; filename="t.jpg"\r\nContent-Type: image/jpeg\r\n\r\n'
    body = "".join(texts).encode() + head.encode() + b"\xff\xd8\x00" * 1000 + b"\r\n--b--\r\n"
    return body, ("Content-Type", "multipart/form-data; boundary=b")


@pytest.mark.parametrize(("coding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
@pytest.mark.parametrize("name", ["content", "sent"])
def test_a_compressed_body_is_verified_as_its_sender_signs_it(
    daemon: Daemon, name: str, coding: str, pack: Any
) -> None:
    body = pack(JSON)
    right, wrong = (mac(JSON).hex(), mac(body).hex()) if name == "content" else (mac(body).hex(), mac(JSON).hex())
    encoding = ("Content-Encoding", coding)
    assert post(daemon, f"/hooks/{name}", body, encoding, ("X-Sig", wrong)).status == 401
    answer = post(daemon, f"/hooks/{name}", body, encoding, ("X-Sig", right))
    assert answer.status == 202
    stored = shown(daemon, answer)
    assert base64.b64decode(stored["body"]) == JSON
    assert "content-encoding" not in {header[0].lower() for header in stored["headers"]}
    assert post(daemon, f"/hooks/{name}", body, ("Content-Encoding", "br"), ("X-Sig", right)).status == 415
    assert post(daemon, "/hooks/plain", body, encoding, ("X-Sig", right)).status == 415


def test_a_body_that_grows_beyond_its_bounds_is_refused_and_its_memory_is_free_again(daemon: Daemon) -> None:
    bomb = gzip.compress(bytes(50 * 1024 * 1024))
    headers = (("Content-Encoding", "gzip"), ("X-Sig", mac(bomb).hex()))
    assert [post(daemon, "/hooks/sent", bomb, *headers).status for _ in range(20)] == [413] * 20
    assert post(daemon, "/hooks/sent", gzip.compress(JSON)[:-9], *headers).status == 400
    packed = gzip.compress(JSON)
    assert post(daemon, "/hooks/sent", packed, headers[0], ("X-Sig", mac(packed).hex())).status == 202


def test_a_form_with_files_is_filtered_and_remembered_by_its_fields(daemon: Daemon) -> None:
    body, content_type = multipart(rawRequest='{"q1":"yes"}', title="holiday-photo")
    answer = post(daemon, f"/hooks/images?key={IN_URL}", body, content_type)
    assert answer.status == 202
    assert base64.b64decode(shown(daemon, answer)["body"]) == body
    until(lambda: "title: holiday-photo" in daemon.symbi("memory", "inspect", "recorder", "--json").stdout)
    other = post(daemon, f"/hooks/images?key={IN_URL}", body.replace(b"image/jpeg", b"image/png"), content_type)
    assert other.json() == {"status": "filtered"}
    assert post(daemon, f"/hooks/images?key={IN_URL}", body[:-9], content_type).status == 400


def test_a_mail_that_a_route_forwards_is_verified_by_its_fields(daemon: Daemon) -> None:
    now = str(int(time.time()))
    signature = mac(f"{now}abc".encode()).hex()
    body, content_type = multipart(timestamp=now, token="abc", signature=signature, subject="Hello-there")
    assert post(daemon, "/hooks/mail", body.replace(b"abc", b"abd"), content_type).status == 401
    assert post(daemon, "/hooks/mail", body, content_type).status == 200
    until(lambda: "subject: Hello-there" in daemon.symbi("memory", "inspect", "recorder", "--json").stdout)


def test_a_call_by_get_has_its_fields_in_its_query(daemon: Daemon) -> None:
    query = "CallSid=CA1&Digits=17&order=9"
    signature = base64.b64encode(mac(f"https://hooks.example/hooks/calls?{query}".encode(), "sha1")).decode()
    header = ("X-Twilio-Signature", signature)
    assert post(daemon, f"/hooks/calls?{query}", b"", header, method="GET").status == 200
    assert post(daemon, f"/hooks/calls?{query}0", b"", header, method="GET").status == 401
    until(lambda: "message: CA1" in daemon.symbi("memory", "inspect", "recorder", "--json").stdout)


def test_a_token_in_the_url_appears_nowhere(daemon: Daemon) -> None:
    body, content_type = multipart(title="x")
    wrong = "wrong-token-9d1"
    answers = [
        post(daemon, f"{path}?key={key}", body, content_type, method=method)
        for key in (IN_URL, wrong)
        for path, method in (("/hooks/images", "POST"), ("/hooks/images", "PUT"), ("/hooks/image", "POST"))
    ]
    assert [answer.status for answer in answers] == [202, 405, 404, 401, 405, 404]
    said = [answer.body for answer in answers]
    commands = (
        ("webhook", "logs", "--json"),
        ("webhook", "deliveries", "--json"),
        ("webhook", "show", answers[0].json()["delivery_id"], "--json"),
        ("webhook", "list", "--json"),
        ("readiness", "--json"),
        ("webhook", "trigger", "images", "--json"),
        ("webhook", "trigger", "images"),
    )
    said += [daemon.symbi(*command).stdout.encode() for command in commands]
    said.append(daemon.request("GET", "/metrics", to="admin").body)
    said += [content for file, content in contents(daemon.root) if file.suffix != ".symbiont"]
    assert len(said) > 15
    for text in (TOKEN, IN_URL, wrong):
        assert not [each[:200] for each in said if text.encode() in each]
    assert hashlib.sha256(body).hexdigest().encode() in b"".join(said)


def send_twice(
    daemon: Daemon, path: str, provider: str, options: dict[str, object] | None = None
) -> tuple[int, str | None]:
    given = {"algorithms": "HS256", "max_age": "5m"} if provider == "jwt" else options
    body = b'{"id":"a","value":1,"value":2}'
    headers = sign(provider, SENDER, body, options=given, now=time.time(), delivery_id=path)
    answer = daemon.request("POST", f"/hooks/{path}", body, headers)
    return answer.status, answer.json().get("error")


@pytest.mark.parametrize("provider", TWICE)
def test_a_key_twice_is_refused_by_default_and_its_last_value_counts_with_the_option(
    daemon: Daemon, provider: str
) -> None:
    assert send_twice(daemon, provider, provider) == (400, "duplicate_key")
    assert send_twice(daemon, f"{provider}-last", provider) == (202, None)


def test_a_signed_text_has_the_last_value(daemon: Daemon) -> None:
    assert send_twice(daemon, "signed-last", "custom", {**SIGNED, "duplicate_keys": "last"}) == (202, None)


def entries(daemon: Daemon) -> str:
    """Return all that was written to memories."""
    return "".join(file.read_text() for file in daemon.root.glob("**/*.md"))


def test_memories_have_the_last_value(daemon: Daemon) -> None:
    assert send_twice(daemon, "custom-last", "custom") == (202, None)

    until(lambda: "- value: 2" in entries(daemon), what="the entry")
    assert "has a key twice" not in entries(daemon)


def send(daemon: Daemon, webhook: str, provider: str, body: bytes, *, event: str = "push", number: str = "1") -> Answer:
    headers = sign(provider, SENDER, body, now=time.time(), delivery_id=f"{webhook}-{number}", event=event)
    return daemon.request("POST", f"/hooks/{webhook}", body, headers)


def rows_of(daemon: Daemon, webhook: str) -> list[dict[str, str]]:
    return [row for row in daemon.attempts("--limit", "1000") if row["webhook"] == webhook]


def test_a_text_cut_inside_a_character_loses_no_delivery(daemon: Daemon) -> None:
    body = rb'{"action":"opened","pull_request":{"title":"Party \ud83d"}}'
    assert send(daemon, "reviews", "github", body, event="pull_request").status == 202
    assert send(daemon, "own", "custom", rb'{"a":"\ud83e"}').status == 202
    now = b"%d" % (time.time() * 1000)
    issue = rb'{"type":"Comment","data":{"body":"\ud83d"},"webhookTimestamp":' + now + b"}"
    assert send(daemon, "issues", "linear", issue).status == 200  # its sender takes nothing else


@pytest.mark.parametrize(
    "more",
    [rb'"text":"\ud83d"', rb'"\udc00":1', b'"n":1e400', b'"n":' + b"9" * 5000],
    ids=["text", "key", "1e400", "digits"],
)
def test_a_retry_of_a_delivery_is_one_delivery_whatever_else_is_in_it(daemon: Daemon, more: bytes) -> None:
    body = b'{"id":"evt_%b","type":"invoice.paid",%b}' % (more[:8].hex().encode(), more)
    first, again = (send(daemon, "payments", "stripe", body) for _ in range(2))
    assert (first.status, again.status) == (202, 202)
    assert first.json() == again.json()


def test_a_byte_order_mark_is_skipped_and_signed(daemon: Daemon) -> None:
    assert (
        send(daemon, "reviews", "github", MARK + b'{"action":"opened"}', event="pull_request", number="2").status == 202
    )
    assert send(daemon, "own", "custom", MARK + b'{"a":1}').status == 202
    first, again = (send(daemon, "payments", "stripe", MARK + b'{"id":"evt_mark","type":"x"}') for _ in range(2))
    assert first.json() == again.json()
    value = json.dumps({"value": [{"changeType": "updated", "clientState": SENDER}]}).encode()
    assert daemon.request("POST", "/hooks/office", MARK + value).status == 202
    # The signature is that of the raw bytes.
    headers = sign("custom", SENDER, b'{"a":1}', now=time.time(), delivery_id="unsigned-mark")
    assert daemon.request("POST", "/hooks/own", MARK + b'{"a":1}', headers).status == 401


@pytest.mark.parametrize("body", UNREADABLE)
@pytest.mark.parametrize(
    ("webhook", "provider"), [("reviews", "github"), ("payments", "stripe"), ("own", "custom"), ("subjects", "github")]
)
def test_a_body_that_decides_and_cannot_be_decoded_is_refused_with_the_reason(
    daemon: Daemon, webhook: str, provider: str, body: bytes
) -> None:
    answer = send(daemon, webhook, provider, body, event="pull_request", number=body.hex())
    assert (answer.status, answer.json()["error"]) == (400, "invalid_json")
    until(lambda: "invalid_json" in {row["reason"] for row in rows_of(daemon, webhook)}, what="the row")


def test_a_webhook_that_reads_nothing_from_its_bodies_accepts_them_and_the_memory_says_why_it_has_no_facts(
    daemon: Daemon,
) -> None:
    assert send(daemon, "any", "github", b"<a/>").status == 202
    assert send(daemon, "any", "github", rb'{"ref":"refs/heads/\ud83d"}', number="2").status == 202

    until(lambda: "- note: the body is not JSON" in entries(daemon), what="the first entry")
    until(lambda: "refs/heads/\ufffd" in entries(daemon), what="the second entry")


def test_explain_decides_as_the_daemon_does(daemon: Daemon) -> None:
    def refused(name: str, payload: str) -> object:
        done = daemon.symbi("webhook", "test", name, "--payload", payload, "--explain", "--json")
        assert done.returncode in {0, 1}, done.stderr
        return json.loads(done.stdout)["refused"]

    assert refused("own", r'{"a":"\ud83d"}') is None
    assert refused("own", "\ufeff" + '{"a":1e400}') is None
    assert refused("payments", r'{"id":"evt_\ud83d"}') == "malformed_delivery_id"
    assert refused("subjects", '{"a":1,"a":2}') == "duplicate_key"
    done = daemon.symbi("webhook", "test", "own", "--payload", '{"a":', "--explain")
    assert "--payload is not JSON: expecting value (line 1, column 6)" in done.stderr


@pytest.mark.parametrize("query", ["validationToken=abc", "validationtoken=abc", "VALIDATIONTOKEN=abc"])
def test_the_name_of_a_validation_token_may_be_in_lower_case(daemon: Daemon, query: str) -> None:
    answer = daemon.request("POST", f"/hooks/office?{query}", b"")
    assert (answer.status, answer.body) == (200, b"abc")


@pytest.mark.parametrize("query", ["validationtoken=abc&validationToken=abc", "token=abc"])
def test_no_other_query_is_echoed(daemon: Daemon, query: str) -> None:
    assert daemon.request("POST", f"/hooks/office?{query}", b"").status >= 400


@pytest.mark.parametrize(
    ("path", "near"),
    [
        ("/hooks/own/", "/hooks/own"),
        ("//hooks//own", "/hooks/own"),
        ("/Hooks/OWN", "/hooks/own"),
        ("/hooks/%6fwn", "/hooks/own"),
        ("/elsewhere", None),
        ("/" + "x" * 500, None),
    ],
)
def test_the_path_that_no_webhook_has_is_in_the_row_with_the_one_that_was_meant(
    daemon: Daemon, path: str, near: str | None
) -> None:
    assert daemon.request("POST", path, b"{}").status == 404
    row = next(row for row in reversed(daemon.attempts("--reason", "not_found")) if row["path"] == path[:200])
    assert (row["near_path"], row["headers"]) == (near, [["content-length", "2"]])
    shown = daemon.symbi("webhook", "logs", "--reason", "not_found").stdout
    assert path[:40] in shown
    assert near is None or f"did you mean {near}?" in shown


def test_the_path_of_a_wrong_method_is_in_the_row(daemon: Daemon) -> None:
    assert daemon.request("PUT", "/hooks/own", b"{}").status == 405
    row = daemon.attempts("--reason", "method_not_allowed")[-1]
    assert (row["path"], row["near_path"]) == ("/hooks/own", None)


def test_readiness_and_the_list_name_the_secret_beside_a_webhook_that_is_not_mounted(daemon: Daemon) -> None:
    ready = json.loads(daemon.symbi("readiness", "--json").stdout)
    (check,) = [each for each in ready["checks"] if each["check"] == "webhooks"]
    assert check["status"] == "RED"
    assert "not mounted: unmounted: " in check["text"]
    assert "env NOTED: it begins or ends with white space" in check["text"]
    listed = daemon.symbi("webhook", "list", "--json").stdout
    assert "white space" in listed
    assert "hunter2" not in listed + json.dumps(ready)
