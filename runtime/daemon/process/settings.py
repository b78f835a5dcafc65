"""Settings of the process: flags of `symbi up`, else `SYMBIONT_*` variables, else these defaults. Not language."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PrivateAttr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from dslc.blocks.values.url import valid_url
from runtime.daemon.process.embedding_environment import Environment
from runtime.errors import UsageError

_ADDRESS = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^\[\]:]*)):(?P<port>[0-9]{1,5})\Z", re.ASCII)


_NAME = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]{0,251}[a-z0-9_])?", re.ASCII)


def parse_address(text: str) -> tuple[str, int]:
    """`HOST:PORT`, `[V6]:PORT` or `:PORT` (every interface) as (host, port). Raises ValueError."""
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
        raise ValueError(f"{wrong[:80]!r} is no name of a host; write such as metrics.internal, with commas between")
    return ",".join(names)


Names = Annotated[str, AfterValidator(_names)]


class ProcessSettings(BaseSettings):
    """Settings of the process, which `SYMBIONT_LISTEN`, `SYMBIONT_DATABASE` and so on set too."""

    model_config = SettingsConfigDict(env_prefix="SYMBIONT_", frozen=True, extra="ignore")

    listen: Address = Field("127.0.0.1:8080", description="where senders post: HOST:PORT")
    admin_listen: Address = Field("127.0.0.1:8081", description="the operators' listener: HOST:PORT")
    admin_names: Names | None = Field(
        None, description="names that the operators' listener answers to, besides addresses and localhost"
    )
    public_url: PublicUrl | None = Field(
        None, description="what senders see of the listener: https://hooks.example.com"
    )
    database: str | None = Field(None, repr=False, description="postgresql://…; default: SQLite in the root")
    master_key: str | None = Field(None, repr=False, description="where the master key is from: secret://…")
    log_format: Literal["auto", "text", "json"] = Field("auto", description="auto: text on a terminal, else JSON")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="the least that is logged; debug: a line for each delivery"
    )
    metrics_public: bool = Field(False, description="/metrics to everybody who reaches the operators' listener")
    connections: int = Field(
        4096, ge=1, le=1_000_000, description="senders' connections that may be open at the same time"
    )
    inbox_capacity: int = Field(
        4096, ge=1, le=1_000_000, description="deliveries that may wait for admission before 503"
    )
    workers: int = Field(64, ge=1, le=256, description="runs at the same time")
    drain_seconds: float = Field(20, ge=0, le=86_400, description="how long a stop waits for what is under way")
    keep_days: int = Field(30, ge=1, le=36_500, description="days that finished deliveries and their bodies are kept")
    keep_mb: int = Field(
        256, ge=1, le=1_000_000_000, description="megabytes of bodies that are kept of finished deliveries"
    )
    trusted_proxies: int = Field(0, ge=0, le=16, description="how many proxies of ours stand before the listener")
    address_per_minute: int = Field(
        120,
        ge=0,
        le=1_000_000_000,
        description="refused requests of one address in a minute before it has to wait; 0: any number",
    )

    @property
    def served_names(self) -> frozenset[str]:
        """`admin_names`, each one."""
        return frozenset((self.admin_names or "").split(",")) - {""}

    _environment: Environment = PrivateAttr(default=Environment())

    @property
    def environment(self) -> Environment:
        """Environment variables for embeddings and summaries; empty unless these settings were `read`."""
        return self._environment

    @classmethod
    def read(cls, flags: dict[str, Any]) -> ProcessSettings:
        """The settings, given the flags that were set. Raises UsageError naming the flag or variable that is wrong."""
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
