"""Bearer tokens: their text, their callers, and those that are refused."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from runtime.clock import milliseconds
from runtime.database.connection import Database
from runtime.database.schema import tokens as table
from runtime.errors import Conflict, NotFound, UsageError
from runtime.identity import users
from runtime.identity.caller import Caller, Forbidden, Scope
from runtime.identity.tokens import TokenRefused, Tokens, is_token, make_token, token_hash
from runtime.tool_groups import ToolChoice
from tests.cases import each_case
from tests.clocks import ManualClock
from tests.conftest import KEY
from tests.databases import migrated


def test_a_token_says_what_it_is_and_has_256_random_bits() -> None:
    tokens = {make_token() for _ in range(1000)}
    assert len(tokens) == 1000
    assert all(is_token(token) and token.startswith("symbi_") and len(token) == 55 for token in tokens)
    assert all(set(token) <= set(string.ascii_letters + string.digits + "_") for token in tokens)


@given(place=st.integers(6, 54), letter=st.sampled_from(string.ascii_letters + string.digits))
def test_one_wrong_letter_is_no_token(place: int, letter: str) -> None:
    token = make_token()
    typed = token[:place] + letter + token[place + 1 :]
    assert is_token(typed) == (typed == token)


@each_case(
    "change",
    [
        lambda token: token + " ",
        lambda token: token + "\n",
        lambda token: token[:-1],
        lambda token: token.upper(),
        lambda token: token.removeprefix("symbi_"),
        lambda token: token.replace("symbi_", "ghp_"),
        lambda token: "",
        lambda token: "symbi_" + "٠" * 49,
    ],
)
def test_anything_else_is_no_token(change: object) -> None:
    assert callable(change)
    assert not is_token(change(make_token()))


def test_the_hash_is_of_the_whole_token() -> None:
    token = make_token()
    assert len(token_hash(token)) == 32
    assert token_hash(token) != token_hash(token[:-1])


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """SQLite only: differences of PostgreSQL are tested in the layers below."""
    return f"sqlite:///{migrated(tmp_path / 'symbiont.db')}"


async def new(tokens: Tokens, user: str = "owner", *scopes: Scope, lifetime_ms: int | None = None) -> tuple[str, str]:
    made = await tokens.create(user, label="test", scopes=scopes or ("read",), lifetime_ms=lifetime_ms)
    assert made is not None
    return made.token_id, made.token


async def why(tokens: Tokens, text: str) -> str:
    with pytest.raises(TokenRefused) as refused:
        await tokens.caller(text)
    return refused.value.reason


async def test_a_token_is_its_users_with_its_scopes(database: Database, clock: ManualClock) -> None:
    tokens = Tokens(database, clock)
    ada = await users.add(database, "ada", milliseconds(clock))
    token_id, token = await new(tokens, ada, "write")
    assert await tokens.caller(token) == Caller(ada, frozenset({"write"}), token_id)


async def test_a_limited_token_has_its_tools_alone(database: Database, clock: ManualClock) -> None:
    tokens = Tokens(database, clock)
    limit = ToolChoice.read("kv,tasks,read-only")
    made = await tokens.create("owner", label="", scopes=["write"], tools=limit)
    assert made is not None
    caller = await tokens.caller(made.token)
    assert caller.tools == limit
    caller.need_tool("tasks", "task_list", read_only=True)
    for group, read_only in (("tasks", False), ("tables", True), (None, True)):
        with pytest.raises(Forbidden):
            caller.need_tool(group, "it", read_only=read_only)
    with pytest.raises(Forbidden):
        caller.need_all_tools("it")
    # A group of a newer program, which this one does not know.
    await database.transact(lambda connection: connection.execute(table.update().values(tools="calendar")))
    assert (await tokens.caller(made.token)).tools == ToolChoice(frozenset())


async def test_the_keys_of_a_caller_are_known_whichever_daemon_made_them(
    database: Database, database_url: str, clock: ManualClock
) -> None:
    made_by = await Database.open(database_url, KEY)
    ada = await users.add(made_by, "ada", milliseconds(clock))
    made_by.keys.ensure(ada)
    _, token = await new(Tokens(made_by, clock), ada)
    await made_by.close()
    assert not database.keys.knows(ada)
    await Tokens(database, clock).caller(token)
    assert database.keys.knows(ada)


async def test_only_a_hash_is_kept_of_a_token(database: Database, clock: ManualClock) -> None:
    tokens = Tokens(database, clock)
    _, token = await new(tokens)
    async with database.read() as connection:
        row = (await connection.execute(select(table))).one()
    assert token[6:20] not in str(row)
    assert len(row.hash) == 32
    assert not any("hash" in row for row in await tokens.rows())


async def test_an_unknown_an_expired_and_a_revoked_token_are_refused(database: Database, clock: ManualClock) -> None:
    tokens = Tokens(database, clock)
    _, short = await new(tokens, lifetime_ms=60_000)
    token_id, revoked = await new(tokens)
    assert await why(tokens, make_token()) == "unknown"
    assert await why(tokens, "symbi_nonsense") == "malformed"
    await tokens.caller(revoked)
    assert await tokens.revoke(token_id) == token_id
    assert await why(tokens, revoked) == "revoked"
    clock.advance(59.9)
    await tokens.caller(short)
    clock.advance(0.1)
    assert await why(tokens, short) == "expired"


async def test_a_token_goes_with_its_user(database: Database, clock: ManualClock) -> None:
    tokens = Tokens(database, clock)
    ada = await users.add(database, "ada", milliseconds(clock))
    _, token = await new(tokens, ada)
    assert await database.transact(lambda connection: users.remove(connection, ada)) == 1
    assert await why(tokens, token) == "unknown"
    assert await tokens.create(ada, label="", scopes=frozenset()) is None
    assert await database.transact(lambda connection: users.remove(connection, ada)) is None


async def test_the_owner_is_there_without_a_row_and_stays(database: Database, clock: ManualClock) -> None:
    with pytest.raises(Conflict):
        await users.add(database, "owner", 0)
    assert await users.names(database) == {"owner": "owner"}
    assert await database.transact(lambda connection: users.remove(connection, "owner")) is None
    _, token = await new(Tokens(database, clock), "owner")
    assert (await Tokens(database, clock).caller(token)).user_id == "owner"


async def test_a_name_is_taken_once(database: Database) -> None:
    ada = await users.add(database, "ada", 5)
    with pytest.raises(Conflict, match="the user ada exists"):
        await users.add(database, "ada", 6)
    assert await users.overview(database, 0) == [
        {"id": "owner", "user": "owner", "created_at": None, "tokens": 0},
        {"id": ada, "user": "ada", "created_at": 5, "tokens": 0},
    ]


@each_case("name", ["", "Ada", "a b", "-a", "a-", "a" * 65, "ä", "a/b", "a\n", "../x", "٣"])
async def test_a_name_that_none_can_have_is_refused(database: Database, name: str) -> None:
    with pytest.raises(UsageError, match="is not a valid user name"):
        await users.add(database, name, 0)


async def test_when_a_token_was_used_is_written_once_a_minute(database: Database, clock: ManualClock) -> None:
    tokens = Tokens(database, clock)
    _, token = await new(tokens)
    first = milliseconds(clock)
    await tokens.caller(token)
    assert [row["used_at"] for row in await tokens.rows()] == [first]
    clock.advance(59)
    await tokens.caller(token)
    assert [row["used_at"] for row in await tokens.rows()] == [first]
    clock.advance(1)
    await tokens.caller(token)
    assert [row["used_at"] for row in await tokens.rows()] == [first + 60_000]


async def test_a_token_that_leaked_is_revoked_by_its_own_text_which_is_never_told(
    database: Database, clock: ManualClock
) -> None:
    tokens = Tokens(database, clock)
    token_id, token = await new(tokens)
    await tokens.caller(token)
    for wrong in (token[:-1], make_token(), "symbi_"):
        with pytest.raises(NotFound) as told:
            await tokens.revoke(wrong)
        assert wrong not in told.value.line()
    await tokens.caller(token)
    assert await tokens.revoke(token) == token_id
    assert await why(tokens, token) == "revoked"


async def test_a_token_is_revoked_by_the_beginning_of_its_id_when_that_is_plain(
    database: Database, clock: ManualClock
) -> None:
    tokens = Tokens(database, clock)
    token_id, _ = await new(tokens)
    await new(tokens)
    for start in ("", "nothing", "%", token_id[:8]):  # both were made in the same millisecond
        with pytest.raises(NotFound):
            await tokens.revoke(start)
    assert await tokens.revoke(token_id[:30]) == token_id
    assert sorted(row["state"] for row in await tokens.rows()) == ["good", "revoked"]
    assert next(row["id"] for row in await tokens.rows() if row["state"] == "revoked") == token_id


def test_a_scope_implies_the_smaller_ones() -> None:
    held: dict[Scope, set[Scope]] = {"read": {"read"}, "write": {"read", "write"}, "admin": {"read", "write", "admin"}}
    for scope, implied in held.items():
        caller = Caller("ada", frozenset({scope}))
        for wanted in held:
            assert caller.may(wanted) == (wanted in implied)
    with pytest.raises(Forbidden, match="the scope write"):
        Caller("ada", frozenset({"read"})).need("write")
    assert not Caller("ada", frozenset()).may("read")
