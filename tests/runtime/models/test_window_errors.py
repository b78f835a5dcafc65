"""Refusals of requests that are larger than a model's window, in the words of several services."""

from __future__ import annotations

import pytest

from runtime.models.window_errors import exceeds_window, stated_window


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
        "The number of tokens to keep from the initial prompt is greater than the context length",
        "max_tokens must be at least 1, got -808",
        "Input length (5000 tokens) exceeds the maximum allowed length (4096 tokens). Use a shorter input",
        "Prompt length (5000) exceeds maximum input length (4096)",
        "Your request exceeded model token limit: 262144 (requested: 300000)",
        "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]",
        "invalid params, context window exceeds limit (2013)",
        "Prompt exceeds max length",
        "prompt token count of 139938 exceeds the limit of 128000",
        "The estimated number of input and output tokens (9000) exceeded this model context window limit (7968)",
        "Request body too large for gpt-4o model. Max size: 8000 tokens.",
        "The maximum context length of DeepSeek-V3-0324 is 32768. However, your request will take 39732 tokens",
        "generating 1 tokens requires a length of 4310, but the maximum supported sequence length is just 4096!",
        "prompt too long; exceeded max context length by 1204 tokens",
        "This request exceeds the model's context window of 128000 tokens",
        "The prompt is longer than the model's context length",
        "Context size has been exceeded.",
        "Prompt too long: 120451 tokens exceeds max context window of 120000 tokens",
        "Requested tokens (9000) exceed context window of 512",
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


def test_a_request_that_is_too_large_by_its_status_is_larger_than_the_window() -> None:
    assert exceeds_window("", 413)
    assert not exceeds_window("", 400)


def test_a_limit_of_tokens_in_a_time_is_no_window() -> None:
    assert not exceeds_window("Input exceeds the context window", 429)


def test_a_refusal_may_say_the_window() -> None:
    for explanation, window in (
        ("This model's maximum context length is 8192 tokens. However, you requested 10421 tokens", 8192),
        ("request (9000 tokens) exceeds the available context size (4096 tokens), try increasing it", 4096),
        ("The decoder prompt (length 5000) is longer than the maximum model length of 4096", 4096),
        ("Trying to keep the first 5000 tokens. However, the model is loaded with context length of only 4096", 4096),
        (
            "The estimated number of input and maximum output tokens (8200) exceeded the context window limit (8192)",
            8192,
        ),
        ("prompt is too long: 210000 tokens > 200000 maximum", 200_000),
        ("input length and `max_tokens` exceed context limit: 197000 + 8192 > 200000", 200_000),
        ("The input token count (2000000) exceeds the maximum number of tokens allowed (1048576)", 1_048_576),
        (
            "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
            32_768,
        ),
        ("`inputs` tokens + `max_new_tokens` must be <= 4097. Given: 4000 `inputs` tokens", 4097),
        ("Range of input length should be [1, 6000]", 6000),
        ("Request body too large for gpt-4o model. Max size: 8000 tokens.", 8000),
        ("the request is larger than the window of gpt-4096 at localhost:46323: Prompt exceeds max length", None),
    ):
        assert stated_window(explanation) == window, explanation
