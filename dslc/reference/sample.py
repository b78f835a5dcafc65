"""Whole programs round one setting, for the reference: they compile without a warning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dslc.blocks import Setting
from dslc.example import Line, line, needed
from dslc.vocabulary import Vocabulary, by_name

_DEMANDED = {"webhook": ("secret", "insecure_allow_unverified")}
"""By kind: a setting that a rule demands and not its type, and the one that may stand in its place."""


def sample(vocabulary: Vocabulary, kind: str, *given: Line) -> str:
    """A program with one block of `kind` that has the settings `given`, and what it cannot be without."""
    settings = tuple(vocabulary.kinds[kind].values())
    lines = complete(vocabulary, settings, given, demanded=_demanded(kind, given))
    names = [
        (setting.block, written.value)
        for written in lines
        if written.value is not None and (setting := by_name(settings)[written.key]).block is not None
    ]
    blocks = [block(kind, f"my-{kind}", lines), *(block(str(other), name, ()) for other, name in names)]
    return "\n\n".join(blocks) + "\n"


def complete(
    vocabulary: Vocabulary, settings: Sequence[Setting], given: Sequence[Line], demanded: Iterable[str] = ()
) -> list[Line]:
    """`given` and the other settings of the same body that must stand beside them, in the order of `settings`."""
    known, written = by_name(settings), {each.key: each for each in given}
    wanted = [known[name] for name in (*written, *demanded)]
    return [
        written.get(setting.name) or line(setting, vocabulary)
        for setting in needed(settings, wanted)
        if written.keys().isdisjoint(setting.excludes) or setting.name in written
    ]


def _demanded(kind: str, given: Sequence[Line]) -> list[str]:
    setting, instead = _DEMANDED.get(kind, (None, None))
    if setting is None or any(each.key == instead and each.value == "true" for each in given):
        return []
    return [setting]


def block(kind: str, name: str, lines: Sequence[Line]) -> str:
    """A block in its usual layout."""
    if not lines:
        return f"{kind} {name} {{}}"
    return "\n".join([f"{kind} {name} {{", *_layout(lines, 1), "}"])


def _layout(lines: Sequence[Line], depth: int) -> list[str]:
    """Lines with the values of each run aligned; what has a body ends its run."""
    indent, written = "    " * depth, []
    for run in _runs(lines):
        width = max((len(each.key) for each in run if each.value is not None), default=0)
        for key, value, body in run:
            head = key if value is None else f"{key:<{width}} {value}"
            if body:
                written += [f"{indent}{head} {{", *_layout(body, depth + 1), f"{indent}}}"]
            else:
                written.append(f"{indent}{head}" if body is None else f"{indent}{head} {{}}")
    return written


def _runs(lines: Sequence[Line]) -> list[list[Line]]:
    runs: list[list[Line]] = [[]]
    for each in lines:
        if each.value is None and runs[-1]:
            runs.append([])
        runs[-1].append(each)
        if each.body is not None:
            runs.append([])
    return [run for run in runs if run]
