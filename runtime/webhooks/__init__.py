"""Webhooks: who sends them, how they are proved, which are wanted."""

from __future__ import annotations

from runtime.webhooks.answer import Answer
from runtime.webhooks.filter import Filters, compile_filters
from runtime.webhooks.headers import Headers
from runtime.webhooks.payload import Payload
from runtime.webhooks.provider import Fact, Provider
from runtime.webhooks.providers import PROVIDERS, find_provider
from runtime.webhooks.refusal import REASONS, Refused
from runtime.webhooks.request import Request
from runtime.webhooks.signing import sign, sign_request
from runtime.webhooks.summary import Summary, describe
from runtime.webhooks.verification import Verified, Verifier, prepare, prepare_unverified, verify

__all__ = [
    "PROVIDERS",
    "REASONS",
    "Answer",
    "Fact",
    "Filters",
    "Headers",
    "Payload",
    "Provider",
    "Refused",
    "Request",
    "Summary",
    "Verified",
    "Verifier",
    "compile_filters",
    "describe",
    "find_provider",
    "prepare",
    "prepare_unverified",
    "sign",
    "sign_request",
    "verify",
]
