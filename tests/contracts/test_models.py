"""The contract of language models, for every row of the table."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from dslc.blocks.setting import settings_of
from dslc.blocks.variant import Variant
from dslc.catalog import Catalog
from dslc.compiler import analyse
from dslc.diagnostics.diagnostic import Severity
from dslc.source import Source
from runtime.models import MODELS, ModelRow, open_model
from runtime.models.model import Model
from runtime.secrets.secret import Secret
from tests.runtime.models.services import PATHS, SAID, serving

KEY = "sk-" + "9Wn3Rt7Vb1Y8Gx2Lm5Qz"


@pytest.fixture(params=MODELS.values(), ids=lambda row: row.name)
def row(request: pytest.FixtureRequest) -> ModelRow:
    """Every row of the table."""
    found = request.param
    assert isinstance(found, ModelRow)
    return found


@pytest.fixture
async def model(row: ModelRow) -> AsyncIterator[Model | None]:
    """The opened row, with a local service."""
    async with AsyncExitStack() as stack:
        given: dict[str, object] = {}
        if row.name in PATHS:
            given["url"] = (await stack.enter_async_context(serving(row.name))).url
        if any(setting.name == "api_key" for setting in settings_of(row.options)):
            given["api_key"] = Secret(KEY.encode(), "env KEY")
        opened = await open_model(Variant(name=row.name), given)
        yield opened
        if opened is not None:
            await opened.close()


async def test_only_none_opens_nothing(row: ModelRow, model: Model | None) -> None:
    assert (model is None) == (row.name == "none")


async def test_it_is_called_what_the_program_calls_it_and_knows_its_model(row: ModelRow, model: Model | None) -> None:
    if model is not None:
        assert model.name == row.name
        assert model.model


async def test_it_answers_and_says_that_it_is_there(model: Model | None) -> None:
    if model is not None:
        assert await model.reachable()
        assert await model.generate("What happened?", system="Be brief.", max_tokens=20) == SAID


async def test_its_options_and_secrets_are_not_in_its_repr(model: Model | None) -> None:
    assert KEY not in repr(model)
    assert KEY not in repr(vars(model) if model is not None else {})


def test_no_option_is_required_so_that_an_agent_may_name_it_alone(row: ModelRow) -> None:
    assert not any(setting.required for setting in settings_of(row.options))
    # The only diagnostic: a model has no effect yet.
    assert _said_of_an_agent_with(row.name) <= {"R303"}


def test_an_agent_names_no_model_that_is_not_in_the_table() -> None:
    assert _said_of_an_agent_with("anything-else") == {"T403"}


def _said_of_an_agent_with(model: str) -> set[str]:
    found = analyse([Source("agents", f"agent reader {{ model {model} }}\n")], Catalog.installed()).diagnostics
    return {each.code for each in found if each.severity is not Severity.NOTE}


def test_it_is_described(row: ModelRow) -> None:
    assert row.title
    assert row.doc.endswith(".")
    assert all(setting.doc.endswith(".") for setting in settings_of(row.options))


def test_the_table_loads_neither_a_client_nor_numbers() -> None:
    code = "import sys, runtime.models; print([m for m in ('aiohttp', 'numpy', 'onnxruntime') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
