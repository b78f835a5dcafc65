"""Readiness checks: one line for each part of a daemon, GREEN, YELLOW or RED."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from dslc.blocks.agent import Agent
from dslc.blocks.model import LanguageModel
from dslc.blocks.values.quantity import format_size
from dslc.blocks.values.tool import matches, server_of
from dslc.program import Program
from runtime import extras
from runtime.agents.context.build import NoRoom
from runtime.agents.context.fields import window_line
from runtime.api.admin.agents.context_preview import first_context
from runtime.api.admin.keys.keys import resealing_json
from runtime.api.admin.operation import operation
from runtime.api.admin.state import AdminContext, ModelStatus
from runtime.clock import milliseconds
from runtime.crypto import Unsealable
from runtime.database.errors import Unavailable
from runtime.database.keys.key import BOUND, ROTATED_AT
from runtime.database.schema import OWNER
from runtime.errors import SymbiontError
from runtime.memory.open_memory import OpenMemory
from runtime.memory.store_types import StoreProblem
from runtime.models.model import ModelUnavailable, Problem
from runtime.switches import AGENTS, SWITCHES
from runtime.threads import run
from runtime.threads.turns.backlog import Backlog, BacklogReader
from runtime.threads.turns.turn import AGENT_GONE, QUEUED, RUNNING, WAITING
from runtime.tool_servers.server import ProgramServer, ProgramServers
from runtime.webhooks.routing.dynamic_routes import SWITCHED_OFF
from runtime.webhooks.routing.route import MountedWebhook

Level = Literal["GREEN", "YELLOW", "RED"]
_WORSE: tuple[Level, ...] = ("GREEN", "YELLOW", "RED")

LITTLE_ROOM = 1024 * 1024 * 1024
NO_ROOM = 64 * 1024 * 1024
"""Free bytes on a disk: below the first the check is YELLOW, below the second RED, as writes are about to fail."""
_MOST_LISTED = 5
"""Maximum number of reasons in one check."""
_FAILING_HOURS: Final = 24
"""Hours for which runs that failed in a row are reported."""
NONE = "none"
"""Name of the embedding in an environment without one, and of a model that is none."""


class Check(NamedTuple):
    """One check. RED: a requested part does not work. YELLOW: it works, with a limitation."""

    check: str
    status: Level
    text: str


@operation(searches=True)
async def readiness(context: AdminContext) -> dict[str, Any]:
    """Return every check, and the worst of them as `status`. `ready`: True if none is RED."""
    checks = [check async for check in _checks(context)]
    return checks_json(checks)


def checks_json(checks: list[Check]) -> dict[str, Any]:
    """Return checks as JSON."""
    worst = max((check.status for check in checks), key=_WORSE.index, default="GREEN")
    return {"status": worst, "ready": worst != "RED", "checks": [check._asdict() for check in checks]}


def unmounted_webhooks(mounts: Mapping[str, MountedWebhook]) -> list[MountedWebhook]:
    """Return the webhooks that should be mounted and are not."""
    return [entry for entry in mounts.values() if entry.problem and entry.problem != SWITCHED_OFF]


async def _checks(context: AdminContext) -> AsyncIterator[Check]:
    yield _daemon(context)
    for check in await _folders(context):
        yield check
    yield await _database(context)
    yield await _master_key(context)
    yield _keys(context)
    yield await _tables(context)
    yield _program(context)
    yield _secrets(context)
    if context.program_state.environment_notes:
        yield Check("environment", "YELLOW", _list_text("needs attention", context.program_state.environment_notes))
    yield _webhooks(context)
    for check in _switches(context):
        yield check
    for check in await _turns(context):
        yield check
    async for check in _agents(context):
        yield check
    if (costs := await _costs(context)) is not None:
        yield costs
    for check in server_checks(context.mcp.servers, context.program):
        yield check
    async for check in _memories(context):
        yield check


async def red_checks(context: AdminContext) -> list[Check]:
    """Return what is RED of the root, the memories, and the contexts and runs of agents; what changes by itself is
    known without a look: webhooks, secrets, storage, models, servers."""
    checks = [*await _folders(context), await _master_key(context), _keys(context), await _tables(context)]
    checks += [check async for check in _memories(context)]
    checks += [check async for check in _contexts(context)]
    checks += await _failing_threads(context)
    return [check for check in checks if check.status == "RED"]


async def _folders(context: AdminContext) -> list[Check]:
    folders = [context.state, *(memory.folder for memory in context.memories.values() if memory.folder is not None)]
    return await asyncio.to_thread(lambda: [_state(context.state), *_disks(folders)])


async def _memories(context: AdminContext) -> AsyncIterator[Check]:
    for name, memory in sorted(context.memories.items()):
        yield await _store(name, memory)
        yield await _index(name, memory)
        yield _embedding(name, memory)
        if memory.collection is not None or memory.summarizer_problem:
            yield await _summaries(name, memory)


def _daemon(context: AdminContext) -> Check:
    if not context.daemon.addresses:
        return Check("daemon", "YELLOW", "no daemon runs on this root: start it with `symbi up`")
    where = ", ".join(f"{address} ({name})" for name, address in context.daemon.addresses.items())
    return Check("daemon", "GREEN", f"listens on {where}")


def _state(folder: Path) -> Check:
    """Check the folder by creating and removing a file: permissions alone do not show a full or read-only disk."""
    probe = folder / f".probe-{secrets.token_hex(4)}"
    try:
        os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        probe.unlink()
    except OSError as error:
        return Check("state folder", "RED", f"{folder} cannot be written to: {(error.strerror or str(error)).lower()}")
    return Check("state folder", "GREEN", f"{folder} can be written to")


def _disks(folders: list[Path]) -> Iterator[Check]:
    """One check for each disk that a folder is on, or will be."""
    seen: set[int] = set()
    for folder in folders:
        # An unreadable folder is reported with its memory.
        there = next((each for each in (folder, *folder.parents) if os.access(each, os.F_OK)), None)
        try:
            if there is None or (disk := there.stat().st_dev) in seen:
                continue
            seen.add(disk)
            free = shutil.disk_usage(there).free
        except OSError as error:
            yield Check("disk", "YELLOW", f"{there} cannot be checked: {(error.strerror or str(error)).lower()}")
            continue
        level: Level = "RED" if free < NO_ROOM else "YELLOW" if free < LITTLE_ROOM else "GREEN"
        yield Check("disk", level, f"{format_size(free)} free where {there} is")


async def _database(context: AdminContext) -> Check:
    shown = context.database.label
    if not context.database.intact():
        return Check("database", "RED", f"{shown} was removed or replaced while it was in use")
    try:
        await context.database.probe()
    except SymbiontError as error:
        return Check("database", "RED", error.line())
    return Check("database", "GREEN", shown)


async def _master_key(context: AdminContext) -> Check:
    """Check that the next start will have the master key, which is in memory until the daemon stops."""
    problem = await context.master_key.problem()
    if problem is None:
        return Check("master key", "GREEN", context.master_key.place)
    to = " --to secret://…" if context.master_key.place.startswith("secret://") else ""
    text = f"{problem}; as long as the daemon runs, `symbi key rotate --master{to}` replaces it"
    return Check("master key", "RED", text)


def _keys(context: AdminContext) -> Check:
    """Check the keys of users: their file, how often they were used, and what is still encrypted with earlier ones."""
    keys = context.database.keys
    held = f"{_count(len(keys.current), 'key')} in {keys.store.label}"
    if not keys.store.intact():
        text = f"{held}, which was removed or replaced while it was in use: save them with `symbi key export FILE`"
        return Check("keys", "RED", f"{text} before the daemon stops, and put them back with `symbi key import FILE`")
    worn = [f"{key.key_id.hex()} was used {key.uses:,} times" for key in keys.current if key.uses >= ROTATED_AT]
    if worn:
        return Check("keys", "YELLOW", f"{held}; {_list_text(f'of {BOUND:,} uses that are safe', worn)}")
    work = resealing_json(context)
    if work is None:
        return Check("keys", "GREEN", held)
    if not work["due"]:
        held += "; retired keys are forgotten soon"
    else:
        held += f"; encrypting again: {work['rows']:,} of {work['of']:,} rows" if work["of"] else "; encrypting again"
    if work["unreadable"]:
        return Check("keys", "YELLOW", f"{held}, {_count(work['unreadable'], 'value')} cannot be decrypted")
    return Check("keys", "GREEN", held)


async def _tables(context: AdminContext) -> Check:
    if context.no_tables is not None:
        return Check("tables", "YELLOW", f"there are no SQL tables: {context.no_tables}")
    if context.sql is not None and (lost := await context.sql.missing_files()):
        return Check("tables", "RED", _list_text("missing; put back the files of users' tables", lost))
    return Check("tables", "GREEN", "each user has SQL tables of their own")


def _program(context: AdminContext) -> Check:
    problem = context.program_state.reload_problem
    if problem is not None and context.program_state.resumed:
        return Check("program", "RED", f"the program had errors at the start, so the last valid one runs: {problem}")
    if problem is not None:
        return Check("program", "YELLOW", f"the last reload failed, so the previous program runs: {problem}")
    return Check(
        "program", "GREEN", f"{_count(len(context.agents), 'agent')}, {_count(len(context.memories), 'memory')}"
    )


def _secrets(context: AdminContext) -> Check:
    """Check the secrets. A webhook without its secret is not mounted, which is RED there; a memory without one has less
    functionality."""
    tools = _tools_of_servers(context.program)
    reasons = [(model.used, model.problems) for model in context.program_state.models]
    reasons += [(name in tools, server.missing) for name, server in context.mcp.servers.items()]
    needed, unused = ({each for used, lines in reasons if used is kind for each in lines} for kind in (True, False))
    if missing := [each for each in context.program_state.missing_secrets if each in needed or each not in unused]:
        level: Level = "RED" if unmounted_webhooks(context.mounts) else "YELLOW"
        return Check("secrets", level, _list_text("not resolved", missing))
    if kept := context.program_state.kept_secrets:
        return Check("secrets", "YELLOW", _list_text("could not be read again, so the last value is used", kept))
    return Check("secrets", "GREEN", "all are resolved")


def _webhooks(context: AdminContext) -> Check:
    entries = context.mounts.values()
    mounted = _count(sum(entry.route is not None for entry in entries), "webhook")
    found: Sequence[tuple[Level, str, list[str]]] = (
        (
            "RED",
            "not mounted",
            [f"{each.title or each.name}: {each.problem}" for each in unmounted_webhooks(context.mounts)],
        ),
        (
            "YELLOW",
            "without one of its secrets",
            [f"{each.name}: {reason}" for each in entries if each.route for reason in each.missing],
        ),
        ("YELLOW", "with an unusual secret", [f"{each.name}: {note}" for each in entries for note in each.notes]),
    )
    listed = [(status, _list_text(what, names)) for status, what, names in found if names]
    status = listed[0][0] if listed else "GREEN"
    return Check("webhooks", status, "; ".join((f"{mounted} mounted", *(text for _, text in listed))))


def _switches(context: AdminContext) -> Iterator[Check]:
    """One check for each switch that is off."""
    for name in sorted(context.switches.off):
        switch = SWITCHES[name]
        yield Check(f"switch {name}", "YELLOW", f"{switch.reason}: {switch.stops}; waiting: {switch.waits}")


async def _agents(context: AdminContext) -> AsyncIterator[Check]:
    """Check the models, and the contexts of agents; without agents only the models that they do not answer with."""
    on = context.switches.on(AGENTS)
    for check in await model_checks([model for model in context.program_state.models if on or not model.agents]):
        yield check
    async for check in _contexts(context):
        yield check


async def _contexts(context: AdminContext) -> AsyncIterator[Check]:
    """Check the contexts of agents."""
    on = context.switches.on(AGENTS)
    for agent in sorted(context.program.agents.values(), key=lambda agent: agent.name):
        if on and agent.enabled and (check_of_agent := await _agent(context, agent)) is not None:
            yield check_of_agent


_PARKED: Final = (
    ("switched off", run.SWITCHED_OFF, "for agents that their users have switched off"),
    ("limits", run.BUDGET_EXCEEDED, "for the next day or hour at a limit: `symbi agent usage` shows the limits"),
)
"""Checks of the runs that wait in a state, and why they do."""


async def _turns(context: AdminContext) -> list[Check]:
    """Check the deliveries, and the messages to agents if there are any."""
    reader = BacklogReader(context.database, context.clock)
    if context.database.intact():
        await reader.look()
    if reader.last is None:
        return [Check("deliveries", "RED", "the number of deliveries cannot be read from the database")]
    reason = context.switches.reason(AGENTS)
    checks = [_deliveries(reader.last["delivery"], reason)]
    with suppress(Unavailable):
        for check, state, why in _PARKED:
            if parked := await run.count_parked_runs(context.database, state):
                checks.append(Check(check, "YELLOW", f"{_count(parked, 'run')} waiting {why}"))
        checks += await _failing_threads(context)
    if progress := _progress(reader.last["message"]):
        said = f"{_count(progress, 'message')} to agents"
        checks.append(
            Check("messages", "GREEN", f"{said} in progress")
            if reason is None
            else Check("messages", "YELLOW", f"{said} waiting: {reason}")
        )
    return checks


async def _failing_threads(context: AdminContext) -> list[Check]:
    """Return a check for each thread whose newest runs failed. Raises `Unavailable`."""
    since = milliseconds(context.clock) - _FAILING_HOURS * 3_600_000
    return list(map(_failing_thread, await run.failing_threads(context.database, since)))


def _failing_thread(thread: run.FailingThread) -> Check:
    """Return the check of a thread whose newest runs failed, with what a person can do."""
    user = "" if thread.user_id == OWNER else f" --user id:{thread.user_id}"
    where = "the last" if thread.everywhere else "all"
    text = (
        f"its last {run.IN_A_ROW} runs failed, {where} in the thread {thread.thread_id}: {thread.error}; "
        f"`symbi thread show {thread.thread_id}{user}` shows what it was asked, "
        f"`symbi chat {thread.agent} --new{user}` begins another conversation, and "
        f"`symbi thread delete {thread.thread_id}{user}` ends this one"
    )
    return Check(f"runs of {thread.agent}", "RED", text)


def _progress(backlog: Backlog) -> int:
    return sum(backlog.states[state] for state in (QUEUED, RUNNING, WAITING))


def _deliveries(backlog: Backlog, switched_off: str | None) -> Check:
    """Return the check of deliveries. `switched_off`: why none of them is run."""
    gone = backlog.states[AGENT_GONE]
    ended = [
        *([_count(backlog.dead, "dead letter")] if backlog.dead else []),
        *([f"{_count(gone, 'delivery')} whose agent is gone"] if gone else []),
    ]
    waiting = bool(switched_off and _progress(backlog))
    said = f"{_count(_progress(backlog), 'delivery')} {f'waiting: {switched_off}' if waiting else 'in progress'}"
    if ended:
        return Check(
            "deliveries", "YELLOW", f"{said}; {' and '.join(ended)}: `symbi webhook redeliver` sends them again"
        )
    return Check("deliveries", "YELLOW" if waiting else "GREEN", said)


async def _store(name: str, memory: OpenMemory) -> Check:
    check = f"memory {name}"
    try:
        problems = await memory.store.ready()
        stats = await memory.store.stats()
    except SymbiontError as error:
        return Check(check, "RED", f"{memory.store.identity}: {error.line()}")
    errors = [_problem_text(each) for each in problems if each.severity == "error"]
    if errors:
        return Check(check, "RED", _list_text("nothing can be stored", errors))
    where = "the database" if memory.folder is None else memory.folder
    kept = f"{memory.block.store.name} in {where}: {_count(stats.agents, 'agent')}, {format_size(stats.bytes)}"
    said = {each.file for each in stats.problems}
    besides = [each for each in problems if each.file not in said]
    known = [_problem_text(each) for each in (*besides, *stats.problems)]
    warnings = list(dict.fromkeys([*known, *memory.unread, *memory.not_compacted]))
    if warnings:
        return Check(check, "YELLOW", f"{kept}; {_list_text('needs attention', warnings)}")
    remote = memory.block.store.options.get("remote")
    return Check(check, "GREEN", kept if remote is None else f"{kept}; copies go to {remote.name}")


def _problem_text(problem: StoreProblem) -> str:
    """Return the problem with the name of its file, once."""
    return problem.message if problem.file in problem.message else f"{problem.file}: {problem.message}"


_UNSEALED: Final = ", where the texts of this encrypted store are not encrypted"


async def _index(name: str, memory: OpenMemory) -> Check:
    check = f"index of {name}"
    try:
        stats = await memory.index_stats()
    except SymbiontError as error:
        return Check(check, "RED", f"nothing can be searched: {error.line()}")
    held = _count(stats.entries, "entry")
    if memory.embedder is not None:
        if stats.embedded < stats.entries:
            held += f", {stats.entries - stats.embedded} without a vector yet"
        if memory.embedder.token_bits is not None and stats.tokenized < stats.embedded:
            held += f", {stats.embedded - stats.tokenized} without token bits yet"
    try:
        where = await memory.indexer.index.reachable()
    except SymbiontError as error:
        return Check(check, "RED", f"searches use keywords only: {error.line()}; {held}")
    if where is not None:
        held = f"{held}; {where}" + (_UNSEALED if memory.store.index_keys else "")
    problem = memory.index_problem
    return Check(check, "GREEN" if problem is None else "YELLOW", held if problem is None else f"{held}; {problem}")


def _embedding(name: str, memory: OpenMemory) -> Check:
    check = f"embedding of {name}"
    problem = memory.embedding_problem
    if problem is not None:
        return Check(check, "YELLOW", problem)
    if memory.block.embedding is not None and memory.block.embedding.name == NONE:
        return Check(check, "GREEN", "none, because of EMBEDDING_PROVIDER: searches use keywords")
    if memory.embedding is None:
        return Check(check, "YELLOW", f"none, so searches use keywords: `{extras.install('local')}` installs one")
    if memory.for_tests:
        return Check(check, "YELLOW", f"{memory.embedding}, which is for tests: its vectors have no meaning")
    return Check(check, "GREEN", memory.embedding)


async def _costs(context: AdminContext) -> Check | None:
    """Return what agents cannot do because costs of users are limited and their models have no prices; None if all have
    prices, or no costs are limited."""
    models = context.program.models
    agents = [each for each in context.program.agents.values() if each.enabled]
    priced = {name for name, each in models.items() if each.has_prices}
    missing = [
        f"{model} ({agent.name})" for agent in agents for model in _models_of(agent, models) if model not in priced
    ]
    try:
        if not missing or context.limits.budgets is None or not await context.limits.budgets.limits_costs():
            return None
    except Unavailable:
        return None
    return Check(
        "limits of costs", "YELLOW", _list_text("models without prices are not called for some users", missing)
    )


def _models_of(agent: Agent, models: Mapping[str, LanguageModel]) -> list[str]:
    """Return the names of the models that an agent may ask: its own, that of its summarizer, and their fallbacks."""
    given = (agent.model, agent.summarizer.model)
    asked = [each.name for each in given if each is not None and each.name != NONE]
    fallbacks = (other for name in asked if name in models for other in models[name].fallback)
    return list(dict.fromkeys((*asked, *fallbacks)))


async def model_checks(models: Sequence[ModelStatus]) -> list[Check]:
    """Return the readiness of language models. Takes `runtime.models.reachability.LOOK_SECONDS` at most."""
    return await asyncio.gather(*map(_probe_model, models))


def known_model_checks(models: Sequence[ModelStatus]) -> list[Check]:
    """Return the readiness of language models as their last calls and looks have shown it. Asks nothing."""
    return [_model(model, model.client.known_problems if model.client and model.used else ()) for model in models]


def model_availability(models: Sequence[ModelStatus]) -> dict[str, float]:
    """Return for each language model 1 if it can be asked, else 0, as its last calls and looks have shown it. What is
    RED in `known_model_checks` is 0; so is a model for which only a fallback answers."""
    clients = {model.name: model.client for model in models if model.used and (model.client or model.problems)}
    return {
        name: 0 if client is None or client.known_problems[0] is not None else 1 for name, client in clients.items()
    }


async def _probe_model(model: ModelStatus) -> Check:
    return _model(model, await model.client.problems() if model.client and model.used else ())


def _model(model: ModelStatus, problems: Sequence[Problem | None]) -> Check:
    """Return the readiness of a language model. RED if agents answer with it, and neither it nor a fallback can be
    asked: without them, only summaries lack it, which are built from sentences instead. `problems`: of its client."""
    check, client = f"model {model.name}", model.client
    if not model.used:
        return Check(check, "GREEN", "not checked: no enabled agent uses it")
    missing: Level = "RED" if model.agents else "YELLOW"
    concerned = f"; agents without a model: {', '.join(model.agents)}" if model.agents else ""
    if client is None:
        if not model.problems:
            return Check(check, "GREEN", "none")
        return Check(check, missing, _list_text("it cannot be used", model.problems) + concerned)
    shown = f"{client.name}, {client.model}"
    problem, *others = problems
    if problem is None and model.problems:
        return Check(check, "YELLOW", f"{shown}; {_list_text('needs attention', model.problems)}")
    if problem is None:
        return Check(check, "GREEN", shown)
    said = f"{shown}: {problem.text}"
    if not problem.refused:
        for name, other in zip(client.fallback, others, strict=True):
            if other is None:
                return Check(check, "YELLOW", f"{said}; its fallback {name} answers")
            said = f"{said}; its fallback {name}: {other.text}"
    return Check(check, missing, said + concerned)


def server_checks(servers: ProgramServers, program: Program) -> list[Check]:
    """Return the readiness of the program's MCP servers as they are known. Asks nothing."""
    tools = _tools_of_servers(program)
    return [
        _server(name, server, sorted(tools[name]))
        if name in tools
        else Check(f"mcp {name}", "GREEN", "not checked: no enabled agent uses it")
        for name, server in sorted(servers.items())
    ]


def _tools_of_servers(program: Program) -> dict[str, set[str]]:
    """Return the patterns by which enabled agents name tools of MCP servers, by server."""
    named: dict[str, set[str]] = {}
    for agent in program.agents.values():
        for pattern in (*agent.tools, *agent.confirm) if agent.enabled else ():
            if (server := server_of(pattern)) is not None:
                named.setdefault(server, set()).add(pattern)
    return named


def _server(name: str, server: ProgramServer, patterns: Sequence[str]) -> Check:
    """Return the readiness of a server: never RED, because its tools fail alone. `patterns`: by which agents name its
    tools, also those to be confirmed."""
    check, approve = f"mcp {name}", f"`symbi mcp-server approve {name}`"
    tools = [f"{name}.{tool.name}" for tool in server.offered]
    nothing = [each for each in patterns if not any(matches(each, tool) for tool in tools)]
    match server.state:
        case "unapproved":
            return Check(check, "YELLOW", f"not approved, so it is not started: {approve} shows it")
        case "changed":
            changed = _list_text("changed since it was approved, so it is not started", server.differences)
            return Check(check, "YELLOW", f"{changed}; {approve} shows it")
        case "no secret":
            return Check(check, "YELLOW", _list_text("not started, without a secret", server.missing))
        case "away":
            problem = "" if server.connection is None else server.connection.problem or ""
            return Check(check, "YELLOW", f"away, calls of its {_count(len(tools), 'tool')} fail: {problem}")
        case "connecting":
            return Check(check, "GREEN", f"{_count(len(tools), 'tool')}; not connected yet")
    changes = [] if server.changes is None else server.changes.lines
    said = [_list_text(f"changed since they were approved, so not offered ({approve})", changes)] if changes else []
    said += [_list_text("not offered", server.refused)] if server.refused else []
    said += [_list_text("no tool matches", nothing)] if nothing else []
    return Check(check, "YELLOW" if said else "GREEN", "; ".join([_count(len(tools), "tool"), *said]))


async def _agent(context: AdminContext, agent: Agent) -> Check | None:
    """Return whether the fixed parts of an agent's context fit into the window of its model; None for a recorder, and
    if its model cannot be opened, which is a check of its own."""
    check = f"context of {agent.name}"
    try:
        first = await first_context(context, agent)
    except NoRoom as error:
        return Check(check, "RED", f"every run fails: {error.line()}")
    except Unsealable:
        return Check(check, "YELLOW", "the settings that the user gave the agent cannot be read")
    except (ModelUnavailable, Unavailable):
        return None
    if first is None:
        return None
    size = f"about {first.context.tokens:,} of {first.budget.request:,} tokens before the first message"
    size += f"; {window_line(first.budget)}"
    if first.context.notes:
        return Check(check, "YELLOW", f"{size}; {_list_text('needs attention', first.context.notes)}")
    return Check(check, "GREEN", size)


async def _summaries(name: str, memory: OpenMemory) -> Check:
    """Return the readiness of the summarizer."""
    check, model = f"summaries of {name}", memory.summarizer
    if memory.summarizer_problem is not None:
        return Check(check, "YELLOW", memory.summarizer_problem)
    if model is None:
        return Check(check, "GREEN", "built from sentences of the items")
    if await model.reachable():
        return Check(check, "GREEN", f"{model.name}, {model.model}")
    level: Level = "GREEN" if memory.block.summarize.model is None else "YELLOW"
    return Check(check, level, f"built from sentences of the items: the model {model.name} does not answer")


def _list_text(what: str, lines: Sequence[str]) -> str:
    more = len(lines) - _MOST_LISTED
    rest = f"; and {more} more" if more > 0 else ""
    return f"{what}: {'; '.join(lines[:_MOST_LISTED])}{rest}"


def _count(number: int, noun: str) -> str:
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{number} {noun}s"
