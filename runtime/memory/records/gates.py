"""The gates before a write (second design, "Safety guarantees"): every declared one must be closed.

A gate is closed by a value given for it, or by a field of the item; `na:REASON` states that it does not apply. The
record stores what closed each gate.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

from runtime.memory.errors import RefusedItem
from runtime.memory.item import Item
from runtime.memory.records.options import Gate
from runtime.memory.redaction.redact import redact

GATES: tuple[Gate, ...] = get_args(Gate)
LONGEST = 2000
"""Maximum characters of a value for a gate."""

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|(?:mailto|urn|symbiont|data):")
_PROOF = re.compile(r"(?=.*\bred:\s*\S)(?=.*\bgreen:\s*\S)", re.DOTALL)
_HINTS: Mapping[Gate, str] = {
    "governance": "governance with done:WHAT or na:REASON (--close-governance)",
    "tdd_proof": "tdd_proof with red:WHAT_FAILED green:WHAT_PASSED or na:REASON (--tdd-proof)",
    "evidence": "evidence with the absolute paths of files among the sources, or na:REASON (--evidence)",
    "risk_tier": "risk_tier with the item's tier, GREEN, YELLOW or RED (--risk-tier)",
}


class GateOpen(RefusedItem):
    """A write was refused at these gates; nothing was stored. `closed`: values of the other gates. `records`: in a
    preview, what would be stored."""

    def __init__(
        self, message: str, *, gates: tuple[Gate, ...], hint: str, closed: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.gates = gates
        self.closed = dict(closed or {})
        self.records: list[dict[str, Any]] = []


def check(declared: Sequence[Gate], given: Mapping[str, str], item: Item) -> dict[str, str]:
    """Return the value that closes each declared or given gate, redacted.

    Raises GateOpen, naming every open gate and how to close it. Reads files that the item names.
    """
    unknown = sorted(set(given) - set(GATES))
    if unknown:
        raise GateOpen(f"there is no gate {_quoted(unknown[0][:40])}", gates=(), hint=f"there are {', '.join(GATES)}")
    closed: dict[str, str] = {}
    faults: dict[Gate, str] = {}
    for gate in GATES:
        text = given.get(gate, "").strip()
        if gate not in declared and not text:
            continue
        try:
            closed[gate] = redact(_CHECKS[gate](text, item))
        except ValueError as fault:
            faults[gate] = str(fault)
    if "risk_tier" in closed and closed["risk_tier"] == "RED" and not _has_action(given):
        faults.setdefault("governance", "a RED item needs done:WHAT, the action that was taken")
    if faults:
        raise _gate_error(faults, closed)
    return closed


def _gate_error(faults: Mapping[Gate, str], closed: Mapping[str, str]) -> GateOpen:
    gates = tuple(faults)
    said = "; ".join(f"{gate}: {fault}" for gate, fault in faults.items())
    subject = f"the gate {gates[0]} is" if len(gates) == 1 else f"the gates {', '.join(gates)} are"
    hint = "close " + ", and ".join(_HINTS[gate] for gate in gates)
    return GateOpen(f"{subject} not closed, so nothing was stored: {said}", gates=gates, hint=hint, closed=closed)


def _has_action(given: Mapping[str, str]) -> bool:
    return given.get("governance", "").strip().startswith("done:")


def _governance(text: str, _: Item) -> str:
    return _check_form(text, ("done", "na"))


def _tdd_proof(text: str, _: Item) -> str:
    if text.startswith("na:") or not text:
        return _check_form(text, ("na",), or_else="no proof was given")
    if _PROOF.search(text) is None:
        raise ValueError("the proof needs a test that was red: and then green:")
    return _check_length(text)


def _evidence(text: str, item: Item) -> str:
    if text:
        return _check_form(text, ("na",))
    files = [source for source in item.provenance.sources if _URL.match(source) is None]
    if not files:
        raise ValueError("no source is a file")
    for file in files:
        if not os.path.isabs(file):  # noqa: PTH117 - a source is text
            raise ValueError(f"{_quoted(file)} is not an absolute path")
        try:
            found = os.stat(file)  # noqa: PTH116
        except (OSError, ValueError):
            raise ValueError(f"there is no file {_quoted(file)}") from None
        if not stat.S_ISREG(found.st_mode):
            raise ValueError(f"{_quoted(file)} is not a file")
    return f"files:{len(files)}"


def _risk_tier(text: str, item: Item) -> str:
    tier = item.provenance.risk_tier
    if tier is None:
        raise ValueError("no tier was given")
    if text and text != tier:
        raise ValueError(f"{_quoted(text)} is not the item's tier, {tier}")
    return tier


def _check_form(text: str, ways: tuple[str, ...], or_else: str = "nothing was given for it") -> str:
    if not text:
        raise ValueError(or_else)
    way, colon, what = text.partition(":")
    if not colon or way not in ways:
        raise ValueError(f"it begins with none of {', '.join(f'{each}:' for each in ways)}")
    if not what.strip():
        raise ValueError(f"{way}: needs a value after the colon")
    return _check_length(text)


def _check_length(text: str) -> str:
    if len(text) > LONGEST:
        raise ValueError(f"the value has {len(text)} characters; the maximum is {LONGEST}")
    return text


def _quoted(text: str) -> str:
    return repr(redact(text)[:200])


_CHECKS: Mapping[Gate, Callable[[str, Item], str]] = {
    "governance": _governance,
    "tdd_proof": _tdd_proof,
    "evidence": _evidence,
    "risk_tier": _risk_tier,
}
