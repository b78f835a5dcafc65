"""How services say that a request has more tokens than the model's window."""

from __future__ import annotations

import re
from typing import Final

# Each in lower case. None of them may be part of a refusal for another reason, such as a limit of tokens per minute.
_WORDINGS: Final = (
    # OpenAI, DeepSeek, vLLM, OpenRouter, llama.cpp behind some gateways.
    r"maximum context length",
    r"context_length_exceeded",
    r"exceeds? the context window",
    r"input tokens exceed the configured limit",
    # vLLM, before the request is scheduled.
    r"longer than the maximum model length",
    r"too long to fit into the model",
    # llama.cpp.
    r"exceeds? the available context size",
    r"exceed_context_size_error",
    # LM Studio.
    r"loaded with context length of only",
    # Ollama.
    r"exceeds? the context length",
    r"exceeds? maximum context",
    # Anthropic, also by Bedrock.
    r"prompt is too long",
    r"exceed context limit",
    # Google.
    r"input token count .{0,40}exceeds the maximum number of tokens",
    # Mistral.
    r"too large for model with [0-9]+ maximum context",
    # Bedrock.
    r"input is too long for requested model",
    r"too many input tokens",
    # Groq.
    r"reduce the length of the messages",
    # Cohere.
    r"too many tokens: ",
    # xAI.
    r"maximum prompt length is [0-9]+",
    # Text Generation Inference, of Hugging Face and others.
    r"`inputs` tokens \+ `max_new_tokens` must be",
    r"`inputs` must have less than [0-9]+ tokens",
)
_WINDOW: Final = re.compile("|".join(_WORDINGS))


def exceeds_window(explanation: str) -> bool:
    """True if a service's explanation of a refusal means that the request is larger than the model's window."""
    return _WINDOW.search(explanation.lower()) is not None
