"""Refusals of requests that are larger than a model's window, in the words of several services."""

from __future__ import annotations

import pytest

from runtime.models.window_errors import exceeds_window


@pytest.mark.parametrize(
    "explanation",
    [
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 10421 tokens",
        "Your input exceeds the context window of this model. Please adjust your input and try again",
        "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens",
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096",
        "request (9000 tokens) exceeds the available context size (4096 tokens), try increasing it",
        "the request exceeds the available context size. try increasing the context size or enable context shift",
        "Trying to keep the first 5000 tokens. However, the model is loaded with context length of only 4096 tokens",
        "the input length exceeds the context length",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 197000 + 8192 > 200000",
        "The input token count (2000000) exceeds the maximum number of tokens allowed (1048576)",
        "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        "Input is too long for requested model",
        "Please reduce the length of the messages or completion",
        "too many tokens: total number of tokens in the prompt cannot exceed 4081",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens",
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 4000 `inputs` tokens",
    ],
)
def test_a_request_larger_than_the_window_is_known_by_the_services_words(explanation: str) -> None:
    assert exceeds_window(explanation)


@pytest.mark.parametrize(
    "explanation",
    [
        "",
        "Rate limit reached for gpt-4.1 on tokens per min (TPM): Limit 30000, Used 29000, Requested 5000",
        "Request too large for model `llama-3.3-70b` on tokens per minute (TPM): Limit 6000, Requested 7033",
        "max_tokens is too large: 100000. This model supports at most 16384 completion tokens",
        "Unsupported parameter: 'max_tokens' is not supported with this model",
        "The model `context-1` does not exist",
    ],
)
def test_other_refusals_are_not_taken_for_it(explanation: str) -> None:
    assert not exceeds_window(explanation)
