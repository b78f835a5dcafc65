"""A model without the key that it needs: it opens, and every question says what is missing."""

from __future__ import annotations

from runtime.models.model import AccessRefused, Model, Problem
from runtime.models.request import Reply, Request


class KeylessModel(Model):
    """Answers nothing."""

    def __init__(self, row: str, model: str, hint: str) -> None:
        self.name = row
        self.model = model
        self._hint = hint

    async def reply(self, request: Request) -> Reply:
        raise self._refusal()

    async def problem(self) -> Problem:
        return self.known_problem

    @property
    def known_problem(self) -> Problem:
        return Problem.of(self._refusal())

    def _refusal(self) -> AccessRefused:
        return AccessRefused(f"the model {self.name} needs a key", hint=self._hint)
