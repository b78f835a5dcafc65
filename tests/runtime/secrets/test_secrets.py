"""Secrets are resolved, or a reason is given; a reference is never used as the secret."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from runtime.clock import SYSTEM
from runtime.crypto import MasterKey
from runtime.database.connection import Database
from runtime.secrets import resolve
from runtime.secrets.backend import SecretContext, Unresolved
from runtime.secrets.secret import Secret
from tests.databases import migrated

KEY = MasterKey(bytes(range(32)))


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """SQLite only: differences of PostgreSQL are tested in the layers below."""
    return f"sqlite:///{migrated(tmp_path / 'symbiont.db')}"


@pytest.fixture
def context(database: Database, tmp_path: Path) -> SecretContext:
    return SecretContext({}, tmp_path, database, database.keys, SYSTEM)


def with_environ(context: SecretContext, environ: Mapping[str, str]) -> SecretContext:
    return SecretContext(environ, context.root, context.database, context.key, context.clock)


async def test_an_environment_variable_is_taken_as_it_is(context: SecretContext) -> None:
    secret = await resolve("secret://env/TOKEN", with_environ(context, {"TOKEN": " s3cret\n"}))
    assert secret.reveal() == b" s3cret\n"
    assert secret.origin == "env TOKEN"


@pytest.mark.parametrize(
    ("text", "environ", "reason"),
    [
        ("secret://env/TOKEN", {}, "TOKEN is not set"),
        ("secret://env/TOKEN", {"TOKEN": ""}, "is empty"),
        ("secret://env/TOKEN", {"TOKEN": " \t"}, "is blank"),
        ("secret://env", {}, "has no path after env"),
        ("secret://env/", {}, "has no path after env"),
        ("secret://envv/TOKEN", {}, "unknown secret backend 'envv'"),
        ("secret://credential/key", {}, "CREDENTIALS_DIRECTORY is not set"),
        ("secret://credential/../key", {"CREDENTIALS_DIRECTORY": "/tmp"}, "not a valid name of a credential"),
        ("secret://generated/a/b", {}, "not a valid name"),
        ("secret://file/nowhere", {}, "no such file"),
        ("", {}, "is empty"),
    ],
)
async def test_what_cannot_be_resolved_says_why(
    context: SecretContext, text: str, environ: dict[str, str], reason: str
) -> None:
    with pytest.raises(Unresolved, match=reason):
        await resolve(text, with_environ(context, environ))


async def test_a_files_last_line_end_is_no_part_of_the_secret(context: SecretContext) -> None:
    (context.root / "key").write_bytes(b"s3cret\r\n")
    assert (await resolve("secret://file/key", context)).reveal() == b"s3cret"


async def test_a_file_is_found_by_its_absolute_path(context: SecretContext) -> None:
    (context.root / "key").write_bytes(b"s3cret")
    assert (await resolve(f"secret://file/{context.root}/key", context)).reveal() == b"s3cret"


async def test_only_regular_files_of_a_secrets_size_are_read(context: SecretContext) -> None:
    os.mkfifo(context.root / "pipe")
    (context.root / "big").write_bytes(b"x" * 65_537)
    (context.root / "folder").mkdir()
    for name in ("pipe", "big", "folder"):
        with pytest.raises(Unresolved, match=name):
            await resolve(f"secret://file/{name}", context)


async def test_a_systemd_credential_is_read_from_its_folder(context: SecretContext) -> None:
    (context.root / "hook").write_bytes(b"s3cret\n")
    environ = {"CREDENTIALS_DIRECTORY": str(context.root)}
    assert (await resolve("secret://credential/hook", with_environ(context, environ))).reveal() == b"s3cret"


async def test_a_generated_secret_is_made_once_and_kept_sealed(context: SecretContext) -> None:
    first = await resolve("secret://generated/hook", context)
    second = await resolve("secret://generated/hook", context)
    other = await resolve("secret://generated/other", context)
    assert first.reveal() == second.reveal() != other.reveal()
    assert len(bytes.fromhex(first.reveal().decode())) == 32
    async with context.database.read() as connection:
        rows = (await connection.exec_driver_sql("SELECT value FROM secrets")).all()
    assert len(rows) == 2
    assert all(first.reveal() not in bytes(row[0]) for row in rows)


async def test_a_literal_is_itself(context: SecretContext) -> None:
    assert (await resolve("plain", context)).reveal() == b"plain"


async def test_no_error_and_no_repr_holds_a_secret(context: SecretContext) -> None:
    secret = Secret(b"hunter2", "env X")
    assert "hunter2" not in f"{secret!r} {secret} {[secret]}"
    with pytest.raises(TypeError):
        __import__("pickle").dumps(secret)


async def test_what_backends_look_at_shows_no_environment(context: SecretContext) -> None:
    assert "hunter2" not in repr(with_environ(context, {"TOKEN": "hunter2"}))
