"""The block `model NAME`: a language model under a name."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from dslc.blocks.block import Block
from dslc.blocks.values.types import As, ContextTokens, Name
from dslc.blocks.variant import Variant

_Reference = Annotated[Name, As("reference", block="model")]


def price_provider(service: str) -> str:
    """Return the name of a service in the package `genai-prices`."""
    return "aws" if service == "bedrock" else service


class LanguageModel(Block):
    """A language model under a name, with its service and how it is used.

    An agent, a summarizer and the summaries of a memory name it. Where a setting takes a model, a word is either the
    name of such a block or a [service](models.md): a block cannot have the name of a service.

    ```symbiont
    model fast {
        service ollama {
            model "llama3.1:8b"
        }
        temperature 0.2
        fallback    [strong]
    }

    model strong {
        service openai {
            api_key "secret://env/OPENAI_API_KEY"
        }
    }

    memory notes {
        summarize {
            model fast
        }
    }
    ```
    """

    service: Annotated[Variant, As("variant", family="model")] = Field(
        description="The service that runs the model, with its own options.", examples=["ollama"]
    )
    temperature: float = Field(default=0.7, ge=0, le=2, description="Temperature of the replies to an agent.")
    window: ContextTokens | None = Field(
        default=None,
        description="Maximum tokens of a request and its reply together; by default what the service says.",
        examples=[32_768],
    )
    reply_tokens: int | None = Field(
        default=None,
        ge=16,
        description="Tokens of the window that are reserved for a reply; by default the smaller of 4096 and a quarter "
        "of the window. Less than `window`, and without one than the `context` of the service.",
        examples=[2048],
    )
    fallback: tuple[_Reference, ...] = Field(
        default=(),
        description="Other models, which are tried in this order while this one is unavailable.",
        examples=[("strong",)],
    )
    input_price: float | None = Field(
        default=None,
        ge=0,
        le=100_000,
        description="Price of a million tokens of a request, in US dollars; by default the known price of the model.",
        examples=[0.4],
    )
    output_price: float | None = Field(
        default=None,
        ge=0,
        le=100_000,
        description="Price of a million tokens of a reply, in US dollars; by default the known price of the model.",
        examples=[1.6],
    )
    offered: bool = Field(
        default=False,
        description="Offers the model to users, who can give it to an agent in place of the program's.",
        examples=[True],
    )

    @property
    def has_prices(self) -> bool:
        """True if it gives both prices, without which no limit of costs can be kept."""
        return self.input_price is not None and self.output_price is not None

    @model_validator(mode="after")
    def _falls_back_on_others(self) -> Self:
        if self.name in self.fallback:
            raise ValueError("`fallback` names the model itself")
        return self

    @model_validator(mode="after")
    def _has_room_for_a_request(self) -> Self:
        if self.window is not None and self.reply_tokens is not None and self.reply_tokens >= self.window:
            raise ValueError("`reply_tokens` is not smaller than `window`")
        return self
