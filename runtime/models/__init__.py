"""The table of language models, and the function that opens a model.

To add one: one file with a `Model`, its options model and an opening function, and one row in `MODELS`. No option of a
row is required: an agent may name a model by its row alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from runtime.errors import UsageError
from runtime.extension_table import LazyRow, table_of
from runtime.models.model import Model

if TYPE_CHECKING:
    from dslc.blocks.variant import Variant

Open = Callable[[Mapping[str, object]], Awaitable[Model | None]]


@dataclass(frozen=True)
class ModelRow(LazyRow):
    """A language model; `opener_path` names an `Open`. `concurrency`: calls of one model at once; others wait. `paths`:
    options that are paths; relative ones are under the root."""

    concurrency: int = 4
    paths: tuple[str, ...] = ()


MODELS = table_of(
    "model",
    [
        ModelRow(
            name="ollama",
            title="Ollama",
            doc="A model that Ollama runs, on this machine or another.",
            options_path="runtime.models.ollama:OllamaOptions",
            opener_path="runtime.models.ollama:open_ollama",
            doc_url="https://docs.ollama.com/api/chat",
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
            name="anthropic",
            title="Anthropic",
            doc="Claude, by Anthropic's own API. The redacted text is sent to it.",
            options_path="runtime.models.direct.options:AnthropicOptions",
            opener_path="runtime.models.direct.providers:open_anthropic",
            doc_url="https://docs.anthropic.com/en/api/messages",
            extra="models",
        ),
        ModelRow(
            name="bedrock",
            title="Amazon Bedrock",
            doc="A model on Amazon Bedrock, by its Converse API. The redacted text is sent to it.",
            options_path="runtime.models.direct.options:BedrockOptions",
            opener_path="runtime.models.direct.providers:open_bedrock",
            doc_url="https://docs.aws.amazon.com/bedrock/latest/userguide/conversation-inference.html",
            extra="models",
        ),
        ModelRow(
            name="cohere",
            title="Cohere",
            doc="Command, by Cohere's own API. The redacted text is sent to it.",
            options_path="runtime.models.direct.options:CohereOptions",
            opener_path="runtime.models.direct.providers:open_cohere",
            doc_url="https://docs.cohere.com/reference/chat",
            extra="models",
        ),
        ModelRow(
            name="google",
            title="Google Gemini",
            doc="Gemini, by Google's Gemini API. The redacted text is sent to it.",
            options_path="runtime.models.direct.options:GoogleOptions",
            opener_path="runtime.models.direct.providers:open_google",
            doc_url="https://ai.google.dev/api/generate-content",
            extra="models",
        ),
        ModelRow(
            name="groq",
            title="Groq",
            doc="A model that Groq runs, by its own API. The redacted text is sent to it.",
            options_path="runtime.models.openai_providers:GroqOptions",
            opener_path="runtime.models.openai_providers:open_groq",
            doc_url="https://console.groq.com/docs/api-reference",
        ),
        ModelRow(
            name="mistral",
            title="Mistral",
            doc="A model of Mistral, by its own API. The redacted text is sent to it.",
            options_path="runtime.models.openai_providers:MistralOptions",
            opener_path="runtime.models.openai_providers:open_mistral",
            doc_url="https://docs.mistral.ai/api",
        ),
        ModelRow(
            name="local",
            title="A model on this machine",
            doc="A GGUF file that llama.cpp runs in a process of its own. Nothing is sent anywhere. It is loaded "
            "for the first request and unloaded when it is idle.",
            options_path="runtime.models.local.options:LocalOptions",
            opener_path="runtime.models.local.model:open_local",
            doc_url="https://github.com/ggml-org/llama.cpp/tree/master/tools/server",
            extra="llm",
            paths=("path",),
            concurrency=1,
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


async def open_model(choice: Variant, options: Mapping[str, object], *, root: Path = Path()) -> Model | None:
    """Open the model that a program names; None for `none`. The caller closes it. Makes no call.

    `options`: of the choice, with every secret a `Secret`. `root`: the folder of relative paths in them. Raises
    UsageError for an unknown model and for invalid options.
    """
    # Late: the worker process of a model imports this package, and needs no options.
    from pydantic import ValidationError

    row = MODELS.get(choice.name)
    if row is None:
        raise UsageError(f"there is no model {choice.name}", hint=f"there are {', '.join(sorted(MODELS))}")
    try:
        if row.paths:
            # Before they are joined with the root: the bounds are those of the text in the program.
            row.options.model_validate(dict(options))
        return await cast("Open", row.opener)(_under(root, row, options))
    except ValidationError as error:
        problems = error.errors(include_input=False, include_url=False, include_context=False)
        raise UsageError(
            f"the model {row.name} has invalid options",
            hint="; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in problems),
        ) from None


def _under(root: Path, row: ModelRow, options: Mapping[str, object]) -> dict[str, object]:
    return {**options, **{name: str(root.absolute() / str(options[name])) for name in row.paths if name in options}}
