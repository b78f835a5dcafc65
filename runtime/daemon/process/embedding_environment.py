"""Environment variables for embeddings and summaries; they fill in settings that a program leaves open (the fifth
design, "Env & Config").

`VARIABLES` is the complete list. It is read once, with the settings, and passed down.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from dslc.blocks.memory import Memory
from dslc.blocks.values.invalid import Invalid
from dslc.blocks.values.url import valid_url
from dslc.blocks.variant import Variant
from runtime.errors import UsageError
from runtime.outbound.model_service import OPENAI, is_openai

NONE: Final = "none"
"""The name of the embedding without vectors, and of the model that writes nothing."""
DEFAULT_MODEL: Final = Variant(name="ollama")
"""The language model if neither a program nor the environment names one. It is used only if a call asks for it: on a
shared machine any user can listen on its port."""
_OPENAI: Final = "openai"
_OPENAI_KEY: Final = "OPENAI_API_KEY"


_OTHER_SETTINGS: Final = {
    "QDRANT_URL": "`index qdrant { url … }` in the block of a memory names a Qdrant",
    "SERVER_PORT": "--admin-listen, or SYMBIONT_ADMIN_LISTEN, says where the API is served",
}
"""A variable of the fifth design, and its setting here."""


class Variable(NamedTuple):
    """An environment variable, its default, and its meaning."""

    name: str
    default: str
    meaning: str
    choices: tuple[str, ...] = ()
    least: int = 1
    most: int = 0
    """Largest number; 0 if the value is not a number."""


VARIABLES: Final = {
    each.name: each
    for each in (
        Variable(
            "EMBEDDING_PROVIDER",
            "`local` if it is installed",
            "The embedding of memories that do not name one; `none`: searches use keywords.",
            choices=("ollama", _OPENAI, "local", "hashing", NONE),
        ),
        Variable("EMBEDDING_MODEL", "the provider's default", "The model of `ollama` or `openai`."),
        Variable(
            "EMBEDDING_DIMENSION",
            "the dimension that the model returns",
            "The dimension of vectors. An embedding that returns another dimension is not used, and this is reported.",
            most=16384,
        ),
        Variable("OLLAMA_URL", "`http://localhost:11434`", "The URL of Ollama, for embeddings and for summaries."),
        Variable("OLLAMA_BASE_URL", "`OLLAMA_URL`", "The same; `OLLAMA_URL` has priority if both are set."),
        Variable(
            "SUMMARIZATION_PROVIDER",
            "`ollama` if a variable of Ollama or `SUMMARIZATION_MODEL` is set",
            "The language model for summaries of memories that do not name one. With `none`, or if nothing is set, a "
            "summary consists of sentences from the items.",
            choices=("ollama", _OPENAI, NONE),
        ),
        Variable("SUMMARIZATION_MODEL", "the provider's default", "The model that writes the summaries."),
        Variable("SUMMARIZATION_MAX_WORDS", "`250`", "Maximum number of words of a summary.", most=5000),
        Variable(
            _OPENAI_KEY,
            "",
            "The API key for OpenAI. It is sent only to OpenAI, if a variable above or a program names `openai` and no "
            "other key.",
        ),
    )
}
"""Every variable by its name."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The values that were read; None if a variable is not set."""

    embedding: str | None = None
    embedding_model: str | None = None
    dimension: int | None = None
    summarizer: str | None = None
    summarizer_model: str | None = None
    max_words: int | None = None
    ollama: str | None = None
    without_effect: tuple[str, ...] = field(default=())
    """Variables that are set and have no effect, one line each."""

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Environment:
        """Read the variables from `environ`; an empty one counts as not set. Raises UsageError with the name of an
        invalid one, without its value."""
        given = {name: environ[name].strip() for name in VARIABLES if environ.get(name, "").strip()}
        embedding = _choice(given, "EMBEDDING_PROVIDER")
        dimension = _number(given, "EMBEDDING_DIMENSION")
        _check_dimension(embedding, dimension)
        urls = [_url(given, name) for name in ("OLLAMA_URL", "OLLAMA_BASE_URL")]
        summarizer = _choice(given, "SUMMARIZATION_PROVIDER")
        return cls(
            embedding=embedding,
            embedding_model=given.get("EMBEDDING_MODEL"),
            dimension=dimension,
            summarizer=summarizer,
            summarizer_model=given.get("SUMMARIZATION_MODEL"),
            max_words=_number(given, "SUMMARIZATION_MAX_WORDS"),
            ollama=next(filter(None, urls), None),
            without_effect=(
                *_without_effect(given, embedding, summarizer),
                *(
                    f"{name} has no effect by itself: {how}"
                    for name, how in _OTHER_SETTINGS.items()
                    if environ.get(name)
                ),
            ),
        )

    def with_defaults(self, block: Memory) -> Memory:
        """Return the block with its open settings filled in. The block's own settings win, option by option if its
        provider is the one of the environment; for another provider only Ollama's address and OpenAI's key are
        filled in."""
        summarize = block.summarize
        update: dict[str, Any] = {
            "embedding": self._embedding(block.embedding),
            "summarize": summarize.model_copy(
                update={
                    "model": self._model(summarize.model),
                    "max_words": self.max_words if summarize.max_words is None else summarize.max_words,
                }
            ),
        }
        return block.model_copy(update=update)

    def service(self, choice: Variant) -> Variant:
        """Return the service of a language model with Ollama's address and OpenAI's key where it leaves them open."""
        return self._with(choice.name, choice.options)

    def _embedding(self, choice: Variant | None) -> Variant | None:
        name = self.embedding if choice is None else choice.name
        if name is None:
            return None
        options = {} if choice is None else choice.options
        if name != self.embedding:
            return self._with(name, options)
        model = self.embedding_model if name in {"ollama", _OPENAI} else None
        dimension = self.dimension if name in {"ollama", _OPENAI, "hashing"} else None
        return self._with(name, options, model=model, dimension=dimension)

    def _model(self, choice: Variant | None) -> Variant | None:
        # Setting Ollama's URL or one of its models enables Ollama.
        implied = "ollama" if self.ollama or self.summarizer_model else None
        name = self.summarizer or implied if choice is None else choice.name
        if name is None:
            return None
        options = {} if choice is None else choice.options
        ours = name == (self.summarizer or "ollama") and name != NONE
        return self._with(name, options, model=self.summarizer_model if ours else None)

    def _with(
        self,
        name: str,
        options: Mapping[str, Any],
        *,
        model: str | None = None,
        dimension: int | None = None,
    ) -> Variant:
        """Return the row with the program's options, and the environment's for the others."""
        # The key is sent to OpenAI only: a program that names another address must name its key too.
        to_openai = name == _OPENAI and is_openai(options.get("url", OPENAI))
        found = {
            "url": self.ollama if name == "ollama" else None,
            "model": model,
            "dimension": dimension,
            "api_key": f"secret://env/{_OPENAI_KEY}" if to_openai else None,
        }
        given = {key: value for key, value in found.items() if value is not None}
        return Variant(name=name, options=given | {**options})


def _choice(given: Mapping[str, str], name: str) -> str | None:
    choices = VARIABLES[name].choices
    if name in given and given[name].lower() not in choices:
        raise UsageError(f"{name}: it is none of {', '.join(choices)}")
    return given[name].lower() if name in given else None


def _number(given: Mapping[str, str], name: str) -> int | None:
    if name not in given:
        return None
    text, variable = given[name], VARIABLES[name]
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
    if not variable.least <= number <= variable.most:
        raise UsageError(f"{name}: it is not a whole number from {variable.least} to {variable.most}")
    return number


def _url(given: Mapping[str, str], name: str) -> str | None:
    if name not in given:
        return None
    try:
        return valid_url(given[name])
    except Invalid as error:
        raise UsageError(f"{name}: {error}", hint="such as http://localhost:11434") from None


def _check_dimension(embedding: str | None, dimension: int | None) -> None:
    """Raise UsageError for a dimension that the embedding cannot have."""
    if dimension is None:
        return
    if embedding == "local":
        from runtime.search.embedding.minilm.model import DIMENSION

        if dimension != DIMENSION:
            raise UsageError(f"EMBEDDING_DIMENSION: vectors of the embedding local have {DIMENSION} numbers")
    if embedding == "hashing" and not 8 <= dimension <= 4096:
        raise UsageError("EMBEDDING_DIMENSION: vectors of the embedding hashing have 8 to 4096 numbers")


def _without_effect(given: Mapping[str, str], embedding: str | None, summarizer: str | None) -> Iterator[str]:
    if embedding is None:
        for name in ("EMBEDDING_MODEL", "EMBEDDING_DIMENSION"):
            if name in given:
                yield f"{name} has no effect: EMBEDDING_PROVIDER is not set"
    elif embedding not in {"ollama", _OPENAI} and "EMBEDDING_MODEL" in given:
        yield f"EMBEDDING_MODEL has no effect: EMBEDDING_PROVIDER is {embedding}"
    if embedding == NONE and "EMBEDDING_DIMENSION" in given:
        yield "EMBEDDING_DIMENSION has no effect: EMBEDDING_PROVIDER is none"
    if summarizer == NONE and "SUMMARIZATION_MODEL" in given:
        yield "SUMMARIZATION_MODEL has no effect: SUMMARIZATION_PROVIDER is none"
    if given.get("OLLAMA_URL", given.get("OLLAMA_BASE_URL")) != given.get("OLLAMA_BASE_URL", given.get("OLLAMA_URL")):
        yield "OLLAMA_BASE_URL has no effect: OLLAMA_URL is set too"
