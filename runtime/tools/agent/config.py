"""The tools by which persons look at agents, and give them settings of their own (the fourth design, section 4.4)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from sqlalchemy import Connection

from dslc.blocks.agent import Agent, CompactionThreshold, UserSetting
from dslc.blocks.values.types import ContextTokens
from dslc.program import Program
from runtime.clock import utc
from runtime.crypto import Unsealable
from runtime.errors import Conflict, UsageError
from runtime.suggestions import unknown_name
from runtime.threads import run
from runtime.threads.agent_settings import AgentSettings, StoredSettings
from runtime.threads.turns import parking
from runtime.tools.agent.access import main_name, model_of, named_agent
from runtime.tools.agent.overrides import USER_SETTINGS, offered_models, own_agent, read_own_agent
from runtime.tools.agent.types import AgentOrMain, User
from runtime.tools.context import Context
from runtime.tools.failure import wrong
from runtime.tools.memory.access import asked_user
from runtime.tools.patterns import AGENT, NOT_BLANK
from runtime.tools.result import Result
from runtime.tools.tool import LARGEST_ITEMS, tool

_PREFERENCES = 100
"""Maximum number of preferences."""
_LONGEST_PREFERENCE = 2000
"""Maximum characters of a preference."""


def _plain_value(value: Any, read: ValidatorFunctionWrapHandler) -> Any:
    """Return the value. One message says what it can be, instead of one for each of the types."""
    try:
        return read(value)
    except ValidationError:
        what = f"neither a text of at most {_LONGEST_PREFERENCE:,} characters, nor a number, true or false"
        raise ValueError(what) from None


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("it is not printable text in one line")
    return text


Enabled = Annotated[
    bool | None,
    Field(
        description="False: the agent does not run for the user; its turns wait until it is switched on. It cannot "
        "switch on what the program disables."
    ),
]
Model = Annotated[
    Annotated[str, Field(pattern=AGENT)] | None,
    Field(description="The model, by the name of its block in the program.", examples=["fast"]),
]
MaxTokens = Annotated[
    ContextTokens | None,
    Field(description="Maximum tokens of context; never more than the window of the model.", examples=[32_000]),
]
Threshold = Annotated[
    CompactionThreshold | None,
    Field(description="Share of the context that may be used before older parts are summarized.", examples=[0.8]),
]
SystemPrompt = Annotated[
    Annotated[str, Field(max_length=100_000), NOT_BLANK] | None,
    Field(
        description="The instruction for every run, in place of the program's.", examples=["You are a patient tutor."]
    ),
]
_Preference = Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_one_line)]
_PreferenceValue = Annotated[
    Annotated[str, Field(max_length=_LONGEST_PREFERENCE)] | bool | int | float, WrapValidator(_plain_value)
]
Preferences = Annotated[
    Annotated[dict[_Preference, _PreferenceValue], Field(max_length=_PREFERENCES)] | None,
    Field(
        description="What the user prefers, by name, such as a language or a style; the agent sees it in every run.",
        examples=[{"language": "Italian"}],
    ),
]
ConfigVersion = Annotated[
    Annotated[int, Field(ge=0)] | None,
    Field(description="The version that is changed; the call is refused if it is not the newest. Default: any."),
]


class LastRun(Result):
    """The newest run of an agent. `state`: how it ended, or what it does."""

    run_id: str
    started_at: datetime
    state: str


class AgentSummary(Result):
    """An agent of the program."""

    agent: str
    model: str | None = Field(description="Its model for the user; null: it records what it receives.")
    main: bool = Field(description="It is the main agent, with which a user talks who names none.")
    enabled: bool = Field(description="It runs for the user.")
    memory: str | None = Field(description="Its memory; null: the default one.")
    thread: str = Field(description="The threads that deliveries are added to: `one`, `delivery` or `keyed`.")
    last_run: LastRun | None = Field(description="Its newest run for the user.")


class AgentList(Result):
    """The agents of the program, by name."""

    agents: list[AgentSummary]


class AgentConfig(Result):
    """The settings of an agent as they are for the user."""

    agent: str
    version: int = Field(description="The version of the user's own settings; 0: there are none.")
    enabled: bool
    model: str | None = Field(description="The name of a block, or the service that the program names.")
    max_tokens: int = Field(description="Maximum tokens of context; never more than the window of the model.")
    compaction_threshold: float
    system_prompt: str = Field(description="The instruction for every run; empty: the default one.")
    preferences: dict[str, Any]
    overridden: list[UserSetting] = Field(description="The settings that the user changed.")
    locked: list[UserSetting] = Field(description="The settings that the program does not let users change.")
    offered_models: list[str] = Field(description="The models that the user can choose.")
    notes: list[str] = Field(description="Notes, such as why a setting of the user is ignored.")


_UNREADABLE = "your settings cannot be read: they are ignored until they are replaced, and the agent does not run"


@tool("read", example={})
async def agent_list(context: Context, user: User = None) -> AgentList:
    """List the agents of the program."""
    user_id = await asked_user(context, user) or context.caller.user_id
    main = main_name(context)
    stored = AgentSettings(context.database, context.clock)
    return AgentList(
        agents=[await _summary(context, stored, name, user_id, main=name == main) for name in sorted(context.agents)]
    )


@tool("read", group="agent-memory", example={"agent": "assistant"})
async def agent_config_show(context: Context, agent: AgentOrMain = None, user: User = None) -> AgentConfig:
    """Show the settings of an agent as they are for the user.

    They are those of the program, except for what the user changed.
    """
    declared, user_id = _configurable_agent(context, agent), await asked_user(context, user) or context.caller.user_id
    stored = AgentSettings(context.database, context.clock)
    try:
        found = await stored.get(user_id, declared.name)
    except Unsealable:
        unread = StoredSettings({}, await stored.version(user_id, declared.name))
        return _agent_config(context, declared, unread, _UNREADABLE)
    return _agent_config(context, declared, found)


@tool(
    "write",
    group="approvals",
    largest=LARGEST_ITEMS,
    idempotent=True,
    example={
        "agent": "assistant",
        "version": 0,
        "max_tokens": 32_000,
        "preferences": {"language": "Italian"},
    },
)
async def agent_config_edit(
    context: Context,
    *,
    agent: AgentOrMain = None,
    enabled: Enabled = None,
    model: Model = None,
    max_tokens: MaxTokens = None,
    compaction_threshold: Threshold = None,
    system_prompt: SystemPrompt = None,
    preferences: Preferences = None,
    version: ConfigVersion = None,
    user: User = None,
) -> AgentConfig:
    """Replace the user's own settings of an agent.

    A setting that is not given is that of the program again. What the program locks cannot be changed. The agent uses
    the new settings from its next attempt on.
    """
    declared, user_id = _configurable_agent(context, agent), await asked_user(context, user) or context.caller.user_id
    given = {
        "enabled": enabled,
        "model": model,
        "max_tokens": max_tokens,
        "compaction_threshold": compaction_threshold,
        "system_prompt": system_prompt,
        "preferences": preferences or None,
    }
    settings = {name: value for name, value in given.items() if value is not None}
    _check(context, declared, settings)

    def wake(connection: Connection, now: int) -> None:
        if enabled is not False:
            parking.wake(connection, run.SWITCHED_OFF, now, user_id=user_id, agent=declared.name)

    stored = AgentSettings(context.database, context.clock)
    new = await stored.put(user_id, declared.name, settings, version=version, also=wake)
    context.daemon.on_queued()
    return _agent_config(context, declared, StoredSettings(settings, new))


def _configurable_agent(context: Context, name: str | None) -> Agent:
    """Return the agent whose settings a user may have. Raises NotFound with the nearest names, and for a recorder."""
    agent = named_agent(context, name)
    if model_of(agent) is None:
        raise UsageError(f"the agent {agent.name} has no model: it only records, and has no settings of users")
    return agent


def _check(context: Context, agent: Agent, settings: Mapping[str, Any]) -> None:
    """Raise Conflict for a locked setting, WrongParameters for a value that does not fit the program."""
    locked = [name for name in settings if name in agent.lock]
    if locked:
        # Files are named to administrators only.
        where = context.program.origins.get(("agent", agent.name)) if context.caller.may("admin") else None
        block = f"`agent {agent.name}`{f' ({where})' if where else ''}"
        raise Conflict(
            f"the program locks {', '.join(locked)}: `lock` in the block {block}",
            hint="users cannot change what is named there; the author of the program can remove it from `lock`",
        )
    models, model = offered_models(context.program, agent), settings.get("model")
    if model is not None and model not in models:
        raise wrong("model", _model_problem(context.program, model), hint=unknown_name("model", model, models).hint)
    reply, size = agent.context.reply_tokens, settings.get("max_tokens")
    if reply is not None and size is not None and size <= reply:
        raise wrong("max_tokens", f"it must be more than the {reply} tokens that a reply of the agent may have")


def _model_problem(program: Program, model: str) -> str:
    block = program.models.get(model)
    if block is None:
        return f"there is no model {model}"
    if not block.offered:
        return f"the program does not offer the model {model}"
    return f"the costs of the agent are limited, and the model {model} has no prices"


def _agent_config(context: Context, declared: Agent, stored: StoredSettings, problem: str | None = None) -> AgentConfig:
    own = own_agent(context.program, declared, stored.settings)
    notes = [*([problem] if problem else []), *(f"{name} is ignored: {why}" for name, why in own.ignored.items())]
    if not declared.enabled:
        notes.append("the program disables the agent")
    return AgentConfig(
        agent=declared.name,
        version=stored.version,
        enabled=declared.enabled and not own.switched_off and problem is None,
        model=model_of(own.agent),
        max_tokens=own.agent.context.max_tokens,
        compaction_threshold=own.agent.context.compaction_threshold,
        system_prompt=own.agent.instruction,
        preferences=dict(own.settings.get("preferences", {})),
        overridden=[name for name in USER_SETTINGS if name in own.settings],
        locked=[name for name in USER_SETTINGS if name in declared.lock],
        offered_models=list(offered_models(context.program, declared)),
        notes=list(dict.fromkeys(notes)),
    )


async def _summary(context: Context, stored: AgentSettings, name: str, user_id: str, *, main: bool) -> AgentSummary:
    declared = named_agent(context, name)
    try:
        own = await read_own_agent(stored, context.program, declared, user_id)
        enabled = declared.enabled and not own.switched_off
    except Unsealable:
        own, enabled = own_agent(context.program, declared, {}), False
    thread = declared.thread.name
    newest = await run.newest_runs(context.database, user_id, name, 1)
    return AgentSummary(
        agent=name,
        model=model_of(own.agent),
        main=main,
        enabled=enabled,
        memory=declared.memory,
        thread=thread,
        last_run=next(
            (
                LastRun(run_id=each.id, started_at=utc(each.started_at / 1000), state=each.ended or each.state)
                for each in newest
            ),
            None,
        ),
    )
