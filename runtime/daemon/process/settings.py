"""Settings of the process: flags of `symbi up`, else `SYMBIONT_*` variables, else these defaults. They are not part of
the language."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, Field, PrivateAttr, ValidationError, ValidationInfo
from pydantic_settings import BaseSettings, SettingsConfigDict

from dslc.blocks.values.types import Duration, Size
from dslc.blocks.values.url import valid_url
from runtime.daemon.process.embedding_environment import Environment
from runtime.errors import UsageError
from runtime.identity.user_settings import Tier
from runtime.models.budgets.limits import Limits, in_nano
from runtime.switches import SWITCHES, Switches
from runtime.tables.quota import TIERS, Quota, read_quota
from runtime.tasks.rate import PER_HOUR

_ADDRESS = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^\[\]:]*)):(?P<port>[0-9]{1,5})\Z", re.ASCII)


_NAME = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]{0,251}[a-z0-9_])?", re.ASCII)


def parse_address(text: str) -> tuple[str, int]:
    """Parse `HOST:PORT`, `[V6]:PORT` or `:PORT` (every interface) to (host, port). Raises ValueError."""
    match = _ADDRESS.match(text)
    if match is None or int(match["port"]) > 65535:
        raise ValueError("write HOST:PORT, such as 127.0.0.1:8080 or [::1]:8080")
    return match["six"] or match["host"] or "0.0.0.0", int(match["port"])  # noqa: S104 - asked for by leaving it out


def _address(text: str) -> str:
    parse_address(text)
    return text


Address = Annotated[str, AfterValidator(_address)]


def _public_url(text: str) -> str:
    if "?" in text or not text.isascii():
        raise ValueError("write it without a query, such as https://hooks.example.com")
    return valid_url(text)


PublicUrl = Annotated[str, AfterValidator(_public_url)]


def _names(text: str) -> str:
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    wrong = next((name for name in names if _NAME.fullmatch(name) is None), None)
    if wrong is not None:
        raise ValueError(
            f"{wrong[:80]!r} is not a host name; write names such as metrics.internal, separated by commas"
        )
    return ",".join(names)


Names = Annotated[str, AfterValidator(_names)]

OnOff = Literal["on", "off"]


def _quota(text: str, info: ValidationInfo) -> str:
    tier = cast("Tier", str(info.field_name).removeprefix("tier_"))
    try:
        return str(read_quota(text, TIERS[tier]))
    except UsageError as error:
        raise ValueError(error.line()) from None


QuotaText = Annotated[str, AfterValidator(_quota)]
_SECOND, _MONTH = timedelta(seconds=1), timedelta(days=30)


class ProcessSettings(BaseSettings):
    """Settings of the process, which can also be set by `SYMBIONT_LISTEN`, `SYMBIONT_DATABASE` and so on."""

    model_config = SettingsConfigDict(env_prefix="SYMBIONT_", frozen=True, extra="ignore")

    listen: Address = Field("127.0.0.1:8080", description="address for senders' requests: HOST:PORT")
    admin_listen: Address = Field("127.0.0.1:8081", description="address of the operators' listener: HOST:PORT")
    admin_names: Names | None = Field(
        None, description="host names of the operators' listener, besides addresses and localhost"
    )
    public_url: PublicUrl | None = Field(None, description="public URL of the listener: https://hooks.example.com")
    database: str | None = Field(None, repr=False, description="postgresql://…; default: SQLite in the root")
    master_key: str | None = Field(None, repr=False, description="reference to the master key: secret://…")
    log_format: Literal["auto", "text", "json"] = Field("auto", description="auto: text on a terminal, else JSON")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="lowest level that is logged; debug: a line for each delivery"
    )
    metrics_public: bool = Field(
        False, description="serve /metrics without a token to all clients of the operators' listener"
    )
    connections: int = Field(4096, ge=1, le=1_000_000, description="maximum number of senders' open connections")
    inbox_capacity: int = Field(
        4096, ge=1, le=1_000_000, description="maximum number of deliveries that wait for admission; 503 beyond it"
    )
    workers: int = Field(64, ge=1, le=256, description="maximum number of concurrent runs")
    run_timeout: Duration = Field(
        timedelta(hours=1),
        ge=_SECOND,
        le=_MONTH,
        description="time that a run of an agent with a model may take, without its waiting",
    )
    confirm_timeout: Duration = Field(
        timedelta(days=1),
        ge=_SECOND,
        le=_MONTH,
        description="time that a call of an agent waits for the approval of a person, and is denied then",
    )
    drain_timeout: Duration = Field(
        timedelta(seconds=20), le=timedelta(days=1), description="time that a stop waits for running requests and runs"
    )
    keep_time: Duration = Field(
        timedelta(days=30),
        ge=timedelta(days=1),
        le=timedelta(days=36_500),
        description="time that finished deliveries and their bodies are stored",
    )
    keep_size: Size = Field(
        256 * 1024**2, ge=1024**2, le=1024**5, description="size of the bodies stored for finished deliveries"
    )
    user_tokens_per_day: int | None = Field(
        None, ge=1, le=1_000_000_000_000, description="tokens per day of a user who has no limit of their own"
    )
    user_cost_per_day: float | None = Field(
        None, ge=0.0001, le=1_000_000, description="US dollars per day of a user who has no limit of their own"
    )
    user_runs_per_hour: int | None = Field(
        None, ge=1, le=1_000_000, description="runs per hour of a user who has no limit of their own"
    )
    tasks_per_hour: int = Field(
        PER_HOUR, ge=0, le=1_000_000_000, description="tasks that a user may create in an hour; 0: no limit"
    )
    tier: Tier = Field("free", description="tier of a user who has none of their own")
    tier_free: QuotaText = Field(
        str(TIERS["free"]),
        description="what a user of the tier `free` may store; a limit that is not named keeps its default",
    )
    tier_pro: QuotaText = Field(str(TIERS["pro"]), description="the same of the tier `pro`")
    tier_enterprise: QuotaText = Field(str(TIERS["enterprise"]), description="the same of the tier `enterprise`")
    trusted_proxies: int = Field(0, ge=0, le=16, description="number of trusted proxies in front of the listener")
    address_per_minute: int = Field(
        120,
        ge=0,
        le=1_000_000_000,
        description="refused requests per minute of one address before it is throttled; 0: no limit",
    )

    agents: OnOff = Field("on", description="off: no agent runs; deliveries are stored and wait")
    agent_embedding: OnOff = Field("on", description="off: what agents say and remember gets no vectors")
    agent_tools: OnOff = Field("on", description="off: agents have no tools")
    agent_compaction: OnOff = Field("on", description="off: threads of agents are not summarized")

    @property
    def switches(self) -> Switches:
        """The switches, see `runtime.switches`."""
        return Switches.of(self.model_dump(include=set(SWITCHES)))

    @property
    def served_names(self) -> frozenset[str]:
        """`admin_names` as a set."""
        return frozenset((self.admin_names or "").split(",")) - {""}

    @property
    def user_limits(self) -> Limits:
        """The limits of users without their own."""
        return Limits(self.user_tokens_per_day, in_nano(self.user_cost_per_day), self.user_runs_per_hour)

    @property
    def tiers(self) -> Mapping[Tier, Quota]:
        """Storage quota of each tier."""
        return {tier: read_quota(getattr(self, f"tier_{tier}"), TIERS[tier]) for tier in TIERS}

    _environment: Environment = PrivateAttr(default=Environment())

    @property
    def environment(self) -> Environment:
        """Environment variables for embeddings and summaries; empty unless these settings were `read`."""
        return self._environment

    @classmethod
    def read(cls, flags: dict[str, Any]) -> ProcessSettings:
        """Return the settings, given the flags that were set. Raises UsageError with the name of an invalid flag or
        variable."""
        given = {name: value for name, value in flags.items() if value is not None}
        try:
            settings = cls(**given)
        except ValidationError as error:
            first = error.errors()[0]
            field = str(first["loc"][0])
            where = f"--{field.replace('_', '-')}" if field in given else f"SYMBIONT_{field.upper()}"
            reason = first["msg"].removeprefix("Value error, ")
            raise UsageError(f"{where}: {reason[0].lower()}{reason[1:]}") from None
        settings._environment = Environment.read(os.environ)
        return settings


def runtime_folder(environ: Mapping[str, str]) -> Path | None:
    """Return the folder for short-lived sockets: systemd's RUNTIME_DIRECTORY, else XDG_RUNTIME_DIR, else None."""
    named = environ.get("RUNTIME_DIRECTORY", "").partition(":")[0] or environ.get("XDG_RUNTIME_DIR")
    return Path(named) if named and Path(named).is_dir() else None
