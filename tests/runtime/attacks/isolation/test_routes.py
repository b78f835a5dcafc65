"""Every route, and with it every tool, called by another user than the one whose data it names."""

from __future__ import annotations

from runtime.api.rest.endpoints import ENDPOINTS, Endpoint
from runtime.identity.caller import SCOPES
from tests.cases import each_case
from tests.runtime.attacks.isolation.parameters import NAMING, PLAIN, base_of, cases, names_of, needed_by
from tests.runtime.attacks.isolation.world import NEW, OTHER, OWNER, SCOPED, TWIN, World, unknown

ROWS = each_case("row", ENDPOINTS)
_OF_TOOLS = {row.tool.name: row for row in ENDPOINTS}.values()
"""A route of each tool: what another route of it shows is the same."""
FOR_USERS = each_case("row", [row for row in _OF_TOOLS if row.tool.scope != "admin"])
"""Who may call the others sees the items of all users."""
READING = each_case("row", [row for row in _OF_TOOLS if row.tool.scope == "read"])


@ROWS
def test_every_parameter_is_known_to_the_matrix(row: Endpoint) -> None:
    assert set(row.tool.parameters.model_fields) <= {*NAMING, *PLAIN}


@FOR_USERS
def test_what_another_user_has_is_like_what_nobody_has(row: Endpoint, world: World) -> None:
    before, base = world.fingerprint(), base_of(row.tool)
    for named in cases(world, row.tool):
        answer = world.call(row, base | named, user=OTHER)
        other = world.call(row, base | {name: unknown(value) for name, value in named.items()}, user=TWIN)
        assert world.leaks(answer, *(base | named).values()) == set(), named
        assert world.shape(answer) == world.shape(other), named
    assert world.fingerprint() == before


@READING
def test_a_user_who_has_nothing_finds_nothing(row: Endpoint, world: World) -> None:
    for named in cases(world, row.tool):
        given = base_of(row.tool) | named
        assert world.leaks(world.call(row, given, user=NEW, scope="read"), *given.values(), user=NEW) == set(), named


@READING
def test_the_first_user_finds_what_is_theirs(row: Endpoint, world: World) -> None:
    given = base_of(row.tool) | needed_by(world, row.tool)
    answer = world.call(row, given, user=OWNER, scope="read")
    assert answer.status == 200, answer
    nothing = world.call(row, given, user=NEW)
    # Some only count.
    assert world.leaks(answer, user=OWNER) or world.shape(answer) != world.shape(nothing), answer
    # What the other users named is there.
    for name in (name for name in names_of(row.tool) if name in (*row.in_path, *row.others)):
        theirs = NAMING[name](world, row.tool)
        answers = [world.call(row, {**given, name: value}, user=OWNER) for value in (theirs, unknown(theirs))]
        assert world.shape(answers[0]) != world.shape(answers[1]), name


@ROWS
def test_a_route_needs_exactly_its_scope(row: Endpoint, world: World) -> None:
    for scope in SCOPES:
        answer = world.call(row, base_of(row.tool), user=SCOPED, scope=scope)
        allowed = SCOPES.index(scope) >= SCOPES.index(row.tool.scope)
        assert (answer.status == 403) is not allowed, (scope, answer)


@each_case("row", [row for row in ENDPOINTS if "cursor" in row.others])
def test_a_cursor_of_the_first_user_shows_nothing_of_theirs(row: Endpoint, world: World) -> None:
    given = base_of(row.tool) | needed_by(world, row.tool)
    first = world.call(row, {**given, "limit": 1}, user=OWNER)
    cursor = first.json()["next_cursor"]
    assert cursor is not None
    assert world.call(row, {**given, "cursor": cursor}, user=OWNER).status == 200
    answer = world.call(row, {**base_of(row.tool), "cursor": cursor}, user=NEW)
    assert answer.status in {200, 404}, answer
    assert world.leaks(answer, *given.values(), user=NEW) == set()
