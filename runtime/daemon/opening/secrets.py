"""Secrets of a program: each resolved, or the reason why not. One that cannot be read again keeps its previous
value."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from dslc.blocks.memory import Memory
from dslc.blocks.variant import Variant
from dslc.blocks.webhook import Webhook
from dslc.program import Program
from runtime import secrets
from runtime.memory.secret_options import FilledOptions, secrets_in, secrets_of, with_secrets
from runtime.secrets import backend_of
from runtime.secrets.backend import BackendUnavailable, SecretContext, Unresolved
from runtime.secrets.secret import Secret
from runtime.tool_servers.approvals import secrets_of as secrets_of_server
from runtime.webhooks.providers import PROVIDERS

AT_A_TIME = 64
"""Number of secrets resolved at the same time: thousands at once would block the event loop and overload a server."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """Secrets by reference. `stale`: reasons why some could not be read again and have their last value. `references`:
    by the name of a webhook, the options of its provider that are secrets."""

    values: Mapping[str, Secret] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict, repr=False)
    stale: Mapping[str, str] = field(default_factory=dict, repr=False)
    references: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)

    def of(self, block: Webhook) -> list[Secret | str]:
        """Return the secrets of the webhook's senders in its order, each or the reason why it is missing."""
        return [self._secret_or_problem(text) for text in _own(block)]

    def options(self, block: Webhook) -> dict[str, object]:
        """Return the provider's options, with secrets in place of their references."""
        found = {name: self.values[text] for name, text in self._references(block).items() if text in self.values}
        return {**block.provider.options, **found}

    def problem(self, block: Webhook) -> str | None:
        """Return the reason why the webhook cannot be mounted: an option that is a missing secret."""
        return next((self.problems[text] for text in self._references(block).values() if text in self.problems), None)

    def missing(self, wanted: Iterable[str]) -> tuple[str, ...]:
        """Return the reasons why secrets of a memory or a model that are `wanted` are missing."""
        return tuple(self.problems[text] for text in wanted if text in self.problems)

    def choice_options(self, choice: Variant | None, family: str) -> FilledOptions:
        """Return the options of a choice of a memory or an agent with their secrets."""
        return with_secrets(choice, family, self.values, self.problems)

    def _references(self, block: Webhook) -> Mapping[str, str]:
        return self.references.get(block.name, {})

    def _secret_or_problem(self, text: str) -> Secret | str:
        return self.values.get(text) or self.problems[text]


async def resolve(
    program: Program,
    memories: Iterable[Memory],
    previous: Resolution,
    context: SecretContext,
    *,
    services: Iterable[Variant] = (),
    again: Callable[[str], bool] = lambda _: True,
) -> Resolution:
    """Resolve every secret of the webhooks and servers of `program`, of `memories` and of the `services` of models
    once. Those that are not to be read `again` are reused from `previous`."""
    # In a thread: a program may have thousands of webhooks.
    references = await asyncio.to_thread(_all_references, program)
    wanted = await asyncio.to_thread(_all_secrets, program, references, tuple(memories), tuple(services))
    asked = [text for text in wanted if again(text) or text not in previous.values]
    values = {text: previous.values[text] for text in wanted if text in previous.values}
    stale = {text: reason for text, reason in previous.stale.items() if text in values}
    problems: dict[str, str] = {}
    away: dict[str | None, BackendUnavailable] = {}
    for first in range(0, len(asked), AT_A_TIME):
        some = asked[first : first + AT_A_TIME]
        answers = await asyncio.gather(*(_ask(text, context, away) for text in some), return_exceptions=True)
        for text, answer in zip(some, answers, strict=True):
            if isinstance(answer, Secret):
                values[text] = answer
                stale.pop(text, None)
                continue
            if not isinstance(answer, Unresolved):
                raise answer
            if isinstance(answer, BackendUnavailable):
                away[backend_of(text)] = answer
            if text in values:
                stale[text] = answer.line()
            else:
                problems[text] = answer.line()
    found = MappingProxyType(values), MappingProxyType(problems), MappingProxyType(stale)
    return Resolution(*found, references)


async def _ask(text: str, context: SecretContext, away: Mapping[str | None, BackendUnavailable]) -> Secret:
    """Resolve one secret. A backend known to be unavailable (`away`) is not asked again, so that thousands of secrets
    do not wait for it."""
    found = away.get(backend_of(text))
    if found is not None:
        raise BackendUnavailable(str(found), hint=found.hint)
    return await secrets.resolve(text, context)


def _all_secrets(
    program: Program,
    references: Mapping[str, Mapping[str, str]],
    memories: Iterable[Memory],
    services: Iterable[Variant],
) -> list[str]:
    """Return every secret reference of the webhooks, memories, servers and models once."""
    blocks = program.webhooks.values()
    wanted = dict.fromkeys(text for block in blocks for text in (*_own(block), *references[block.name].values()))
    wanted |= dict.fromkeys(text for memory in memories for text in secrets_of(memory))
    wanted |= dict.fromkeys(text for server in program.mcp_servers.values() for text in secrets_of_server(server))
    wanted |= dict.fromkeys(text for service in services for text in secrets_in(service, "model"))
    return list(wanted)


def _all_references(program: Program) -> dict[str, Mapping[str, str]]:
    """Return the options that are secrets, by the name of the webhook."""
    return {block.name: _references(block) for block in program.webhooks.values()}


def _own(block: Webhook) -> tuple[str, ...]:
    return () if block.insecure_allow_unverified else block.secret


def _references(block: Webhook) -> dict[str, str]:
    row = PROVIDERS.get(block.provider.name)
    return {} if row is None else row.references(block.provider.options)
