"""A sender that writes a key of an object twice: refused, unless the webhook says that the last value counts."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.runtime.daemon.running import Daemon, running, until, write_program
from tests.signatures import sign

SECRET = "name:a long secret of the sender, which JSON Web Tokens need"
BODY = b'{"id":"a","value":1,"value":2}'
SIGNED = {"payload": "{json:$.id}.{json:$.value}.{body}"}
PROVIDERS = ("custom", "token", "basic", "jwt")


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
    root = tmp_path_factory.mktemp("daemon")
    blocks = [_webhook(f"{each}-last", each, "duplicate_keys last") for each in PROVIDERS]
    blocks += [_webhook(each, each, "") for each in PROVIDERS]
    blocks.append(_webhook("signed-last", "custom", f'duplicate_keys last payload "{SIGNED["payload"]}"'))
    write_program(root, "".join(blocks) + 'agent notes { instruction "Remember." }\n')
    with running(root, "program", SENDER=SECRET) as started:
        yield started


def send(daemon: Daemon, path: str, provider: str, options: dict[str, object] | None = None) -> tuple[int, str | None]:
    given = {"algorithms": "HS256", "max_age": "5m"} if provider == "jwt" else options
    headers = sign(provider, SECRET, BODY, options=given, now=time.time(), delivery_id=path)
    answer = daemon.request("POST", f"/hooks/{path}", BODY, headers)
    return answer.status, answer.json().get("error")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_key_twice_is_refused_by_default_and_its_last_value_counts_with_the_option(
    daemon: Daemon, provider: str
) -> None:
    assert send(daemon, provider, provider) == (400, "duplicate_key")
    assert send(daemon, f"{provider}-last", provider) == (202, None)


def test_a_signed_text_has_the_last_value(daemon: Daemon) -> None:
    assert send(daemon, "signed-last", "custom", {**SIGNED, "duplicate_keys": "last"}) == (202, None)


def test_memories_have_the_last_value(daemon: Daemon) -> None:
    assert send(daemon, "custom-last", "custom") == (202, None)

    def entries() -> str:
        return "".join(file.read_text() for file in daemon.root.glob("**/*.md"))

    until(lambda: "- value: 2" in entries(), what="the entry")
    assert "has a key twice" not in entries()
