"""The table of language models, and how a model is opened.

To add one: one file with a `Model`, its options model and an opening function, and one row in `MODELS`. No option of a
row is required: an agent may name a model by its row alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import cast

from pydantic import ValidationError

from dslc.blocks.variant import Variant
from runtime.errors import UsageError
from runtime.extension_table import LazyRow, table_of
from runtime.models.model import Model

Open = Callable[[Mapping[str, object]], Awaitable[Model | None]]


class ModelRow(LazyRow):
    """A language model; `opener_path` names an `Open`."""


MODELS = table_of(
    "model",
    [
        ModelRow(
            name="ollama",
            title="Ollama",
            doc="A model that Ollama runs, on this machine or another.",
            options_path="runtime.models.ollama:OllamaOptions",
            opener_path="runtime.models.ollama:open_ollama",
            doc_url="https://docs.ollama.com/api/generate",
        ),
        ModelRow(
            name="openai",
            title="OpenAI, or a service with its API",
            doc="A model of OpenAI or of any service with the same API, such as vLLM, llama.cpp or LM "
            "Studio. The redacted text is sent to it.",
            options_path="runtime.models.openai:OpenAIOptions",
            opener_path="runtime.models.openai:open_openai",
            doc_url="https://platform.openai.com/docs/api-reference/chat/create",
        ),
        ModelRow(
            name="none",
            title="No model",
            doc="No model is used; functions that can work without a model do.",
            options_path="runtime.models.none:NoneOptions",
            opener_path="runtime.models.none:open_none",
        ),
    ],
)
"""Every language model, by its name in a program."""


async def open_model(choice: Variant, options: Mapping[str, object]) -> Model | None:
    """Open the model that a program names; None for `none`. The caller closes it. Makes no call.

    `options`: of the choice, with every secret a `Secret`. Raises UsageError for an unknown model and for invalid
    options.
    """
    row = MODELS.get(choice.name)
    if row is None:
        raise UsageError(f"there is no model {choice.name}", hint=f"there are {', '.join(sorted(MODELS))}")
    try:
        return await cast("Open", row.opener)(options)
    except ValidationError as error:
        problems = error.errors(include_input=False, include_url=False, include_context=False)
        raise UsageError(
            f"the model {row.name} has invalid options",
            hint="; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in problems),
        ) from None
