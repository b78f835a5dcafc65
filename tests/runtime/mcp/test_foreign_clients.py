"""What clients read that were made for other APIs, and people who try a path."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.runtime.daemon.running import Daemon, running, write_program
from tests.runtime.daemon.v1 import ask, make_token


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    root = tmp_path_factory.mktemp("foreign-clients")
    write_program(root, "memory notes {\n    store collection\n    embedding hashing\n}\n")
    with running(root, "program") as started:
        yield started


@pytest.fixture(scope="module")
def token(daemon: Daemon) -> str:
    return make_token(daemon, "--scope", "write")


@pytest.mark.parametrize("path", ["/v1/models", "/v1/chat/completions", "/v1/conversations/x", "/v1/batches"])
def test_a_client_of_openai_reads_why_it_is_refused(daemon: Daemon, token: str, path: str) -> None:
    error = ask(daemon, token, "POST", path, {"model": "a", "input": "Hello"}).json()["error"]
    assert "POST /v1/agents/{agent}/chat" in error["message"]
    assert (error["code"], error["type"], error["param"]) == ("not_found", "invalid_request_error", None)
    unauthorized = ask(daemon, "symbi_wrong", "GET", path)
    assert (unauthorized.status, "token" in unauthorized.json()["error"]["message"]) == (401, True)
    assert "error" not in ask(daemon, token, "GET", "/v1/nothing").json()


@pytest.mark.parametrize("path", ["/", "/nothing", "/v1/memory/a%0Ab/c"])
def test_a_path_that_is_not_there_is_a_problem(daemon: Daemon, token: str, path: str) -> None:
    answer = ask(daemon, token, "GET", path)
    assert (answer.status, answer.json()["type"]) == (404, "urn:symbiont:problem:not_found")
    assert "/v1/openapi.json" in answer.json()["hint"]


def test_a_method_that_a_path_does_not_have_is_a_problem(daemon: Daemon, token: str) -> None:
    answer = ask(daemon, token, "DELETE", "/healthz")
    assert (answer.status, answer.json()["type"]) == (405, "urn:symbiont:problem:method_not_allowed")
