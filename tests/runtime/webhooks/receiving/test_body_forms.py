"""Bodies and requests of other forms over real HTTP: compressed, with files, by GET, and with a token in the URL."""

from __future__ import annotations

import base64
import gzip
import hashlib
import hmac
import json
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.daemon.running import Answer, Daemon, running, until

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
agent recorder {}
"""
SECRETS = {"OWN": "own-secret", "TOKEN": TOKEN}
JSON = json.dumps({"action": "opened", "text": "a" * 3000}).encode()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    root = tmp_path_factory.mktemp("forms")
    (root / "program.symbiont").write_text(PROGRAM)
    with running(root, "program.symbiont", wait=True, **SECRETS) as started:
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


def test_a_token_in_the_url_appears_nowhere(tmp_path: Path) -> None:
    (tmp_path / "program.symbiont").write_text(PROGRAM)
    body, content_type = multipart(title="x")
    wrong = "wrong-token-9d1"
    with running(tmp_path, "program.symbiont", wait=True, SYMBIONT_LOG_LEVEL="debug", **SECRETS) as daemon:
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
    said += [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file() and file.suffix != ".symbiont"]
    assert len(said) > 15
    for text in (TOKEN, IN_URL, wrong):
        assert not [each[:200] for each in said if text.encode() in each]
    assert hashlib.sha256(body).hexdigest().encode() in b"".join(said)
