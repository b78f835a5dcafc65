"""Types of the parameters and results of the tools on agents and their settings."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from dslc.blocks.agent import CompactionThreshold, UserSetting
from dslc.blocks.values.types import ContextTokens
from runtime.tools.patterns import AGENT
from runtime.tools.result import Result

_PREFERENCES = 100
"""Maximum number of preferences."""
_LONGEST_PREFERENCE = 2000
"""Maximum characters of a preference."""


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("it is blank")
    return text


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
    Annotated[str, Field(max_length=100_000), AfterValidator(_not_blank)] | None,
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
