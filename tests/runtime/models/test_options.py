"""What the options of a row add to the requests of its service."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from aiohttp import web
from msgspec import structs

from runtime.models import MODELS
from tests.contracts.test_models import QUESTION, ask, opened
from tests.lanes import first_of
from tests.runtime.models.services import SAID, WIRES, Question, serving, text

_OPENAI = (
    {"reasoning": "low", "extra": {"top_k": 20, "provider": '{"only": ["a"]}'}},
    {"reasoning_effort": "low", "top_k": 20, "provider": {"only": ["a"]}, "max_tokens": 5000, "temperature": 0.5},
)
ASKED: Mapping[str, tuple[Mapping[str, object], Mapping[str, Any]]] = {
    "openai": _OPENAI,
    "groq": _OPENAI,
    "mistral": _OPENAI,
    "ollama": (
        {"reasoning": "high", "keep_alive": timedelta(hours=1), "extra": {"options": '{"top_k": 20}'}},
        {
            "think": "high",
            "keep_alive": 3600,
            "options": {"num_predict": 5000, "num_ctx": 8192, "temperature": 0.5, "top_k": 20},
        },
    ),
    # Half of the reply at most, and no temperature: else Claude refuses the request.
    "anthropic": (
        {"reasoning": "high", "extra": {"service_tier": "auto", "metadata": '{"user_id": "u"}'}},
        {
            "thinking": {"type": "enabled", "budget_tokens": 2500},
            "service_tier": "auto",
            "metadata": {"user_id": "u"},
            "max_tokens": 5000,
            "temperature": None,
        },
    ),
    "bedrock": (
        {"reasoning": "low", "extra": {"additionalModelRequestFields": '{"top_k": 20}'}},
        {
            "additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 2048}, "top_k": 20},
            "inferenceConfig": {"maxTokens": 5000},
        },
    ),
    "cohere": (
        {"reasoning": "low", "model": "command-a-reasoning-08-2025", "extra": {"safety_mode": "STRICT"}},
        {"thinking": {"type": "enabled", "token_budget": 2048}, "safety_mode": "STRICT", "temperature": 0.5},
    ),
    "google": (
        {"reasoning": "low", "extra": {"generationConfig": '{"seed": 7}', "serviceTier": "flex"}},
        {
            "generationConfig": {
                "seed": 7,
                "thinkingConfig": {"include_thoughts": True, "thinking_level": "LOW"},
                "temperature": 0.5,
                "maxOutputTokens": 5000,
                "responseModalities": ["TEXT"],
            },
            "serviceTier": "flex",
        },
    ),
}
"""The options of each row, and what is in the body of its requests then."""


ROWS = [[row for row in WIRES if (MODELS[row].extra == "models") == library] for library in (False, True)]
"""The rows of our own clients, and those that need libraries, whose import takes seconds."""


@first_of("rows", ROWS)
async def test_the_options_of_each_row_are_in_its_requests(rows: list[str]) -> None:
    assert ASKED.keys() == WIRES.keys() == MODELS.keys() - {"local", "none"}
    found = {}
    for row in rows:
        async with serving(row) as service, opened(service, **ASKED[row][0]) as model:
            await ask(model, stream=True, request=structs.replace(QUESTION, max_tokens=5000))
            found[row] = service.bodies[0]
    wanted = {row: ASKED[row][1] for row in rows}
    assert {row: {name: found[row].get(name) for name in sent} for row, sent in wanted.items()} == wanted


@first_of("rows", ROWS)
async def test_a_row_that_does_not_stream_asks_for_whole_answers(rows: list[str]) -> None:
    streams: list[bool] = []

    async def answer(question: Question) -> web.StreamResponse:
        streams.append(question.stream)
        return await text(SAID)(question)

    for row in rows:
        for streamed in (True, False):
            async with serving(row) as service, opened(service, stream=streamed) as model:
                service.answers.append(answer)
                assert (await ask(model, stream=True)).text == SAID
    assert streams == [True, False] * len(rows)
