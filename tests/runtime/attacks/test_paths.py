"""Paths are compared byte for byte: no other spelling of a path is found, on any listener."""

from __future__ import annotations

import pytest

from tests.runtime.attacks.wire import exchange, github_headers, request, statuses
from tests.runtime.daemon.running import Daemon
from tests.runtime.daemon.v1 import make_webhook

BODY = b'{"n":1}'


def spellings(path: str) -> list[bytes]:
    first, _, rest = path.removeprefix("/").partition("/")
    last = rest.rpartition("/")[2] or rest
    texts = [
        *(
            f"/{path}",
            f"//{path}",
            f"/{first}//{rest}",
            f"{path}/",
            f"{path}//",
            f"{path}/.",
            f"{path}/..",
            f"/.{path}",
        ),
        *(f"/x/..{path}", f"/%2e%2e{path}", f"/{first}/./{rest}", f"/{first}/x/../{rest}", f"/{first}%2F{rest}"),
        *(f"/{first}%2f{rest}", f"/{first}\\{rest}", f"/{first}%5C{rest}", f"{path}%00", f"{path}%20", f"{path}%0d%0a"),
        *(f"{path};x=1", f"{path}%3Fx", f"{path}%23", f"/%{ord(first[0]):02x}{first[1:]}/{rest}", f"{path}.json"),
        *(f"{path[:-1]}%{ord(path[-1]):02X}", f"/%25{ord(first[0]):02x}{first[1:]}/{rest}", path.upper(), path.title()),
        *(f"http://user@x{path}", f"{path}%ef%bc%8f", f"/{first}/%75%70{last}"),
    ]
    return [text.encode() for text in texts if text != path] + [path.encode() + b"\xe2\x80\x8b"]


def test_no_other_spelling_reaches_a_declared_webhook(daemon: Daemon) -> None:
    for path in spellings("/hooks/github"):
        answer = exchange(daemon, request(path, BODY, github_headers(BODY)))
        assert statuses(answer) in ([404], [400]), path


def test_no_other_spelling_reaches_a_webhook_that_was_made(daemon: Daemon, token: str) -> None:
    made = make_webhook(daemon, token)
    signed = made.headers(BODY)
    for path in spellings(made.path):
        assert statuses(exchange(daemon, request(path, BODY, signed))) in ([404], [400]), path
    assert daemon.request("POST", made.path, BODY, signed).status == 202


@pytest.mark.parametrize("path", ["/v1/webhooks", "/v1/openapi.json"])
def test_no_other_spelling_reaches_a_resource_of_operators(daemon: Daemon, token: str, path: str) -> None:
    bearer = {"Authorization": f"Bearer {token}", "Connection": "close"}
    for spelled in spellings(path):
        for headers in (bearer, {"Connection": "close"}):
            answer = exchange(daemon, request(spelled, b"", headers, "GET"), "admin")
            (status,) = statuses(answer)
            # In absolute form the target is the same resource (RFC 9112 section 3.2.2).
            same = spelled.startswith(b"http") and headers is bearer
            assert status in ({200} if same else {400, 401, 404, 405}), spelled


def test_nothing_of_the_operators_is_reached_from_outside(daemon: Daemon, token: str) -> None:
    for path in (
        *("/readyz", "/metrics", "/v1", "/v1/", "/v1/webhooks", "/v1/openapi.json", "/v1/tokens.create", "/mcp"),
        *("/console", "/webhooks", "/webhooks/", "/healthz/", "//healthz", "/.env", "/.symbi/master.key"),
        *("/..%2f..%2fetc/passwd", "/../.symbi/master.key", "/hooks/../../.symbi/master.key"),
    ):
        for method in ("GET", "POST"):
            sent = request(path, b"", {"Authorization": f"Bearer {token}", "X-Original-URL": "/readyz"}, method)
            assert statuses(exchange(daemon, sent)) == [404], path
    for name in ("X-Original-URL", "X-Rewrite-URL", "X-Forwarded-Path", "X-HTTP-Method-Override", "X-Forwarded-Host"):
        sent = request("/nothing", BODY, [*github_headers(BODY), (name, "/hooks/github")])
        assert statuses(exchange(daemon, sent)) == [404]
        sent = request("/hooks/github", BODY, [*github_headers(BODY), (name, "POST")], "GET")
        assert statuses(exchange(daemon, sent)) == [405]


def test_an_id_that_is_none_is_answered_alike_whatever_it_looks_like(daemon: Daemon, token: str) -> None:
    made = make_webhook(daemon, token)
    off = make_webhook(daemon, token)
    bearer = [("Authorization", f"Bearer {token}"), ("Content-Type", "application/json")]
    body = b'{"is_active":false}'
    assert daemon.request("PATCH", f"/v1/webhooks/{off.id}", body, bearer, to="admin").status == 200
    ids = [
        *(
            "5f3c1f0e-7c7b-4a55-9a3e-0d6a5f0f7a11",
            off.id,
            made.id[:-1],
            made.id + "0",
            made.id.upper(),
            "*",
            "%2e",
            "null",
        ),
        *(
            f"{{{made.id}}}",
            made.id.replace("-", ""),
            f"urn:uuid:{made.id}",
            f"{made.id}%00",
            "' OR 1=1 --",
            "",
            "1",
            "-1",
        ),
        *("github-events", "owner", made.id[:8], f"{made.id}/audit", f"{made.id}%3F"),
    ]
    answers = set()
    for each in ids:
        path = f"/webhooks/{each}".replace(" ", "%20")
        for headers in (made.headers(BODY), []):
            answer = exchange(daemon, request(path, BODY, headers))
            lines = [line for line in answer.split(b"\r\n") if not line.startswith(b"Date:")]
            answers.add(b"\r\n".join(lines))
    assert len(answers) == 1, answers
    assert statuses(answers.pop()) == [404]
