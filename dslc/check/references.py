"""What blocks say about one another, in whichever files: duplicates, shared paths, references."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence

from dslc.blocks import Memory
from dslc.check.context import Checked, Use
from dslc.check.file import CheckedFile
from dslc.diagnostic import Severity
from dslc.findings import Placed
from dslc.nearest import suggestion


def first_of_each(blocks: Iterable[Checked]) -> dict[tuple[str, str], Checked]:
    """Blocks by kind and name; the second of one name is reported and left out."""
    known: dict[tuple[str, str], Checked] = {}
    for block in blocks:
        first = known.setdefault((block.kind, block.name), block)
        if first is not block:
            block.findings.add(
                "N204",
                f"a second `{block.kind}` is called `{block.name}`",
                _name(block),
                hint="rename one of them",
                labels=[first.findings.label("the first is here", _name(first))],
            )
    return known


def _name(block: Checked) -> Placed:
    return block.node.name if block.node.name is not None else block.node


def shared_webhook_paths(blocks: Iterable[Checked]) -> None:
    """Two webhooks cannot answer on one path."""
    known: dict[object, Checked] = {}
    for block in blocks:
        path = block.given.values.get("path")
        if block.kind != "webhook" or path is None:
            continue
        first = known.setdefault(path, block)
        if first is not block:
            labels = [first.findings.label(f"`{first.name}` has it first", _setting(first, "path"))]
            message = f"the path of `{block.name}` is already taken"
            block.findings.add(
                "N205", message, _setting(block, "path"), hint="give it a path of its own", labels=labels
            )


def _setting(block: Checked, name: str) -> Placed:
    """The value of a setting where it is given, else the block's name."""
    entry = block.given.entry(name)
    if entry is None:
        return _name(block)
    return entry.value if entry.value is not None else entry.key


def shared_memory_paths(blocks: Iterable[Checked]) -> None:
    """Two memories in one folder, or one inside the other, would write into each other's files."""
    known: dict[str, Checked] = {}
    above: dict[str, Checked] = {}
    default = Memory.model_fields["path"].default
    for block in blocks:
        if block.kind != "memory" or (block.given.entry("path") and "path" not in block.given.values):
            continue
        path = posixpath.normpath(str(block.given.values.get("path", default)))
        path = path[1:] if path.startswith("//") else path
        parents = _parents(path)
        first = known.get(path) or above.get(path) or next((known[at] for at in parents if at in known), None)
        if first is not None:
            labels = [first.findings.label(f"`{first.name}` is here", _setting(first, "path"))]
            hint = f'give it a path of its own, such as `path "data/{block.name}"`'
            message = f"the memories `{first.name}` and `{block.name}` lie in one another"
            if known.get(path):
                message = f"the memories `{first.name}` and `{block.name}` have one path"
            block.findings.add("N208", message, _setting(block, "path"), hint=hint, labels=labels)
        known.setdefault(path, block)
        for parent in parents:
            above.setdefault(parent, block)


def _parents(path: str) -> list[str]:
    """The folders above a normal path; `.` is above every relative one."""
    parents = []
    while path not in {"/", ".", ""}:
        path = posixpath.dirname(path) or "."
        parents.append(path)
    return parents


def references(files: Sequence[CheckedFile], known: dict[tuple[str, str], Checked]) -> None:
    """Every name that is used is declared (R301), and every name that is declared is used (R302).

    Nothing is said about either when a file could not be read: it may declare or use what seems to be missing.
    """
    if not all(file.file.readable for file in files):
        return
    perhaps = frozenset().union(*(file.perhaps for file in files))
    uses = [use for file in files for use in file.uses]
    declared: dict[str, list[str]] = {kind: [] for kind in _PLURALS}
    for kind, name in known:
        declared.setdefault(kind, []).append(name)
    for use in uses:
        if (use.kind, use.name) not in known and use.name not in perhaps:
            _undeclared(use, declared[use.kind])
    _unused(known, {(use.kind, use.name) for use in uses}, complete=not perhaps)


def _undeclared(use: Use, names: list[str]) -> None:
    what = f"declared {_PLURALS.get(use.kind, use.kind)}"
    hint = None if use.findings.crowded else suggestion(use.name, names, what=what)
    if use.kind == "agent":
        message = f"no agent is called `{use.name}`: it will only record"
        use.findings.add("R301", message, use.token, hint=hint, severity=Severity.WARNING)
    else:
        use.findings.add("R301", f"no {use.kind} is called `{use.name}`", use.token, hint=hint)


_PLURALS = {"memory": "memories", "agent": "agents"}


def _unused(known: dict[tuple[str, str], Checked], used: set[tuple[str, str]], *, complete: bool) -> None:
    """A memory that is the only one, or is called `default`, is used by whoever names none."""
    memories = [name for kind, name in known if kind == "memory"]
    implied = {("memory", name) for name in memories if len(memories) == 1 or name == "default"}
    used = used | implied
    for (kind, name), block in known.items():
        if complete and kind in _PLURALS and (kind, name) not in used:
            hint = "name it in a webhook" if kind == "agent" else "name it in a webhook or an agent"
            block.findings.add("R302", f"`{kind} {name}` is never used", _name(block), hint=hint)
