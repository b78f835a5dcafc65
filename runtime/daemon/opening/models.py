"""Opening of a program's language models: the pool holds what calls a service, the generation the policy."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from dslc.blocks.memory import Memory
from dslc.blocks.model import LanguageModel
from dslc.blocks.variant import Variant
from dslc.program import Program
from runtime.daemon.opening.resource_pool import Lease, Pool
from runtime.daemon.opening.secrets import Resolution
from runtime.daemon.process.embedding_environment import NONE, Environment
from runtime.errors import SymbiontError
from runtime.models import open_model
from runtime.models.calls.counted_calls import CallContext
from runtime.models.calls.option_key import option_key
from runtime.models.client import CountedModel, ModelClient
from runtime.models.model import Model, ModelUnavailable


class OpenedModel(NamedTuple):
    """A client, or the reason why there is none; neither for the row `none`. `notes`: why fallbacks are missing.
    `agents`: the enabled agents that answer with it. `used`: False if no enabled agent and no memory needs it."""

    client: ModelClient | None = None
    problem: str | None = None
    notes: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    used: bool = True

    @property
    def not_opened(self) -> tuple[str, ...]:
        """Return the reasons why models could not be opened, one line each."""
        return self.notes if self.problem is None else (self.problem, *self.notes)


@dataclass(frozen=True, slots=True)
class ModelOpener:
    """Opens models from pooled resources."""

    pool: Pool[Model]
    calls: CallContext
    environment: Environment
    root: Path
    """Of relative paths."""

    def services(self, program: Program, memories: Iterable[Memory]) -> list[Variant]:
        """Return the services of all models that blocks, agents and `memories` name."""
        summarizers = (memory.summarize.model for memory in memories if memory.summarize.model is not None)
        choices = (*named_models(program), *summarizers)
        return [self.with_defaults(language_model(program, choice)).service for choice in choices]

    async def open_all(self, program: Program, resolution: Resolution, lease: Lease) -> ProgramModels:
        """Open all models that the blocks and agents of `program` name."""
        opened: dict[Hashable, OpenedModel] = {}
        used = _needed_models(program)
        for choice in named_models(program):
            key, model = option_key(choice), await self.client(program, choice, resolution, lease)
            agents = (each for each in program.agents.values() if each.enabled)
            answering = tuple(each.name for each in agents if each.model is not None and option_key(each.model) == key)
            opened[key] = model._replace(agents=answering, used=key in used)
        return ProgramModels(program, opened)

    async def client(self, program: Program, choice: Variant, resolution: Resolution, lease: Lease) -> OpenedModel:
        """Open the model that a setting names, with its fallbacks; their resources are added to `lease`. Makes no
        call."""
        block = self.with_defaults(language_model(program, choice))
        first = await self._open(block, resolution, lease)
        if not isinstance(first, CountedModel):
            return OpenedModel(problem=first)
        fallback, notes = [], []
        for name in block.fallback:
            opened = await self._open(self.with_defaults(program.models[name]), resolution, lease)
            if isinstance(opened, CountedModel):
                fallback.append(opened)
            elif opened is not None:
                notes.append(f"its fallback {name} is off: {opened}")
        return OpenedModel(ModelClient(first, fallback), notes=tuple(notes))

    def with_defaults(self, block: LanguageModel) -> LanguageModel:
        """Return the block with the settings of its service that it leaves to the environment."""
        return block.model_copy(update={"service": self.environment.service(block.service)})

    async def _open(self, block: LanguageModel, resolution: Resolution, lease: Lease) -> CountedModel | str | None:
        """Return the model, or the reason why it is missing; None for the row `none`."""
        choice = block.service
        if choice.name == NONE and not choice.options:
            return None
        options, missing = resolution.choice_options(choice, "model")
        if missing:
            return missing[0]

        async def opening() -> Model:
            model = await open_model(choice, options, root=self.root)
            assert model is not None  # a real model, not the row without one.
            return model

        try:
            model = await lease.take(self.pool, (choice.name, option_key(options)), opening)
        except SymbiontError as error:
            return error.line()
        return CountedModel(block, model, options, self.calls)


class ProgramModels:
    """The models of a program: its blocks, and those that its agents name by a row."""

    def __init__(self, program: Program, opened: Mapping[Hashable, OpenedModel]) -> None:
        """`opened`: by the identity of the setting."""
        self._program = program
        self._opened = opened

    def of(self, choice: Variant) -> OpenedModel:
        """Return the model that a setting of the program names: a block, or the model of an agent."""
        return self._opened[option_key(choice)]

    def client(self, choice: Variant | None) -> ModelClient | None:
        """Return the model that a setting of the program names; None without one. Raises ModelUnavailable if it cannot
        be opened."""
        if choice is None:
            return None
        opened = self.of(choice)
        if opened.client is None and opened.problem is not None:
            raise ModelUnavailable(f"the model {choice.name} cannot be opened: {opened.problem}")
        return opened.client

    def items(self) -> Iterator[tuple[str, OpenedModel]]:
        """Yield name and model of each block, and of each row that an agent names."""
        for choice in named_models(self._program):
            yield choice.name, self.of(choice)


def _needed_models(program: Program) -> set[Hashable]:
    """Return the identities of the settings that name a model which an enabled agent or a memory needs, also as a
    fallback."""
    agents = [each for each in program.agents.values() if each.enabled]
    named = [
        *(each.model for each in agents),
        *(each.summarizer.model for each in agents),
        *(each.summarize.model for each in program.memories.values()),
    ]
    needed = [choice for choice in named if choice is not None]
    needed += [Variant(name=name) for choice in needed for name in language_model(program, choice).fallback]
    return {option_key(choice) for choice in needed}


def language_model(program: Program, variant: Variant) -> LanguageModel:
    """Return the block that a setting names, else a block of the row with the defaults."""
    declared = program.models.get(variant.name)
    return LanguageModel(name=variant.name, service=variant) if declared is None else declared


def named_models(program: Program) -> list[Variant]:
    """Return the settings that name a model in the blocks and agents of `program`, each once."""
    blocks = (Variant(name=name) for name in program.models)
    given = ((agent.model, agent.summarizer.model) for agent in program.agents.values())
    agents = (choice for choices in given for choice in choices if choice is not None)
    return list({option_key(choice): choice for choice in (*blocks, *agents)}.values())
