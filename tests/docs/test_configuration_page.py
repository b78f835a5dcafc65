"""The page of the configuration lists exactly the variables that the code reads."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import runtime
from dslc.blocks.values.quantity import write_duration, write_size
from dslc.report import project
from runtime.daemon.process.embedding_environment import VARIABLES
from runtime.daemon.process.settings import ProcessSettings
from runtime.models.ollama import OllamaOptions
from runtime.models.openai import OpenAIOptions
from runtime.search.embedding import ollama, openai

HOUSE = Path(runtime.__file__).parents[1]
PAGE = (HOUSE / "docs" / "configuration.md").read_text(encoding="utf-8")
ROWS = {
    name: (default.strip(), meaning.strip())
    for name, default, meaning in re.findall(r"^\| `([A-Z][A-Z0-9_]+)` \|(.*?)\| (.*) \|$", PAGE, re.MULTILINE)
}

BY_NAME = {
    "dslc/report/project.py",  # `project._CHECKOUTS`
    "runtime/daemon/process/embedding_environment.py",  # `VARIABLES`
    "runtime/daemon/process/master_key.py",  # The reference in SYMBIONT_MASTER_KEY.
    "runtime/secrets/env.py",  # The references in a program.
    "runtime/tool_servers/child.py",  # What a server inherits: `INHERITED`.
    "runtime/secrets/vault/login.py",  # `_value_or_file` gets the name, and appends `_FILE`.
    "runtime/workers/process.py",  # What a worker inherits: `_INHERITED`.
}
"""Modules that read a variable whose name is not a literal there."""


def modules() -> Iterator[tuple[str, ast.Module]]:
    for folder in ("dslc", "grammar", "runtime"):
        for path in sorted((HOUSE / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if "environ" in text or "getenv" in text:
                yield path.relative_to(HOUSE).as_posix(), ast.parse(text)


def is_environ(node: ast.AST) -> bool:
    """Return whether an expression is the environment, judged by its last name."""
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name in {"environ", "_environ", "environb"}


def read_by(tree: ast.Module) -> Iterator[ast.expr]:
    """Return the names of the variables that a module reads, as expressions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and is_environ(node.value) and isinstance(node.ctx, ast.Load):
            yield node.slice
        elif isinstance(node, ast.Call):
            function = node.func
            method = isinstance(function, ast.Attribute) and (is_environ(function.value) or function.attr == "getenv")
            if method and node.args:
                yield node.args[0]
            elif node.args and is_environ(node.args[0]):
                # A function with the environment and a name as arguments.
                yield from (each for each in node.args[1:] if isinstance(each, ast.Constant))
        elif isinstance(node, ast.Compare) and any(map(is_environ, node.comparators)):
            yield node.left


def read() -> tuple[set[str], set[str]]:
    """Return the variables that the code reads by literal names, and the modules that read others."""
    names, others = set(), set()
    for module, tree in modules():
        for each in read_by(tree):
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                names.add(each.value)
            else:
                others.add(module)
    return names, others


def test_every_variable_that_the_code_reads_is_on_the_page_and_no_other_is() -> None:
    names, others = read()
    settings = {f"SYMBIONT_{name.upper()}" for name in ProcessSettings.model_fields}
    files = {"SYMBIONT_VAULT_ROLE_ID_FILE", "SYMBIONT_VAULT_SECRET_ID_FILE"}

    assert others == BY_NAME, "name the variable where it is read, or put it on the page and the module here"
    assert names | settings | set(VARIABLES) | set(project._CHECKOUTS) | files == set(ROWS)


def test_the_variables_of_the_process_have_their_defaults_and_bounds() -> None:
    for name, field in ProcessSettings.model_fields.items():
        default, _ = ROWS[f"SYMBIONT_{name.upper()}"]
        value = field.default
        if isinstance(value, timedelta):
            value = write_duration(value)
        elif name == "keep_size":
            value = write_size(value)
        if value is not None:
            assert default == f"`{str(value).lower() if value is False else value}`", name
        else:
            assert default, name


def test_the_variables_of_embeddings_and_summaries_are_told_as_the_code_tells_them() -> None:
    for variable in VARIABLES.values():
        default, meaning = ROWS[variable.name]
        choices = f" One of {', '.join(f'`{choice}`' for choice in variable.choices)}." if variable.choices else ""
        assert default == variable.default
        assert meaning == f"{variable.meaning}{choices}"


def test_the_models_of_the_providers_are_told() -> None:
    for options in (ollama.OllamaOptions, openai.OpenAIOptions, OllamaOptions, OpenAIOptions):
        assert f"`{options.model_fields['model'].default}`" in PAGE
    assert ollama.OllamaOptions.model_fields["url"].default == OllamaOptions.model_fields["url"].default
    assert VARIABLES["OLLAMA_URL"].default == f"`{OllamaOptions.model_fields['url'].default}`"


def test_no_variable_stands_on_the_page_twice() -> None:
    found = re.findall(r"^\| `([A-Z][A-Z0-9_]+)` \|", PAGE, re.MULTILINE)
    assert len(found) == len(set(found))
