"""Words of services for a request that has more tokens than the model's window."""

from __future__ import annotations

import re
from typing import Final

# Each in lower case. None of them may be part of a refusal for another reason, such as a limit of tokens per minute.
_WORDINGS: Final = (
    # OpenAI, DeepSeek, vLLM, OpenRouter, SambaNova, llama.cpp behind some gateways.
    r"maximum context length",
    r"context_length_exceeded",
    r"input tokens exceed the configured limit",
    # Most say that something is more than the context: OpenAI, llama.cpp, Ollama, Cloudflare, oMLX and others.
    r"(?:exceed|exceeds|exceeded|longer than|greater than) (?:[a-z']+ ){0,3}context (?:window|length|size|limit)",
    r"context (?:window|length|size) (?:has been )?exceed(?:s|ed)",
    r"exceeds? maximum context",
    r"exceed(?:ed)? max context length by",
    r"exceed_context_size_error",
    r"exceed context limit",
    # vLLM, before the request is scheduled.
    r"longer than the maximum model length",
    r"too long to fit into the model",
    # vLLM, when the request alone fills the window.
    r"max_tokens must be at least 1, got -",
    # SGLang; TensorRT-LLM.
    r"(?:input|prompt) length .{0,40}exceeds (?:the )?maximum (?:allowed |input )",
    # LM Studio.
    r"loaded with context length of only",
    # Anthropic, also by Bedrock.
    r"prompt is too long",
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
    # Moonshot.
    r"exceeded model token limit",
    # DashScope.
    r"range of input length should be",
    # Z.ai.
    r"prompt exceeds max length",
    # GitHub Copilot; GitHub Models.
    r"prompt token count .{0,40}exceeds the limit of",
    r"request body too large .{0,80}max size: [0-9]+ tokens",
    # SambaNova, older.
    r"maximum supported sequence length",
)
_WINDOW: Final = re.compile("|".join(_WORDINGS))
# 197000 + 8192 > 200000; <= 4097; 32768 maximum context length; [1, 6000]; context length is 8192, limit of 8,000.
_STATED: Final = (
    r"(?:>|<=) ?([0-9][0-9,]{2,})",
    r"([0-9][0-9,]{2,}) maximum",
    r"\[1, ?([0-9][0-9,]{2,})\]",
    r"(?:context|limit|maximum(?! output)|max size|cannot exceed)[a-z' ]{0,60}[:(]?[ ]?([0-9][0-9,]{2,})",
)
_SMALLEST: Final = 512


def exceeds_window(explanation: str, status: int | None = None) -> bool:
    """True if a service's refusal means that the request is larger than the model's window.

    `status`: of HTTP, if there is one. 429 is a limit of tokens in a time, also in words like those of a window; 413
    is a request that is too large, whatever its words are.
    """
    return status == 413 or (status != 429 and _WINDOW.search(explanation.lower()) is not None)


def stated_window(explanation: str) -> int | None:
    """Return the window that a service says when it refuses a larger request; None if it says none."""
    for pattern in _STATED:
        if (found := re.search(pattern, explanation.lower())) is not None:
            tokens = int(found[1].replace(",", ""))
            return tokens if tokens >= _SMALLEST else None
    return None
