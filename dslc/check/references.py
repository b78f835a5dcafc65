"""Checks across blocks and files: duplicates, shared paths, references.

Everything is indexed by subject (a name, a path). A changed file affects only its own subjects, so the response time in
an editor does not grow with the number of files.
"""

from __future__ import annotations

import posixpath
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeVar

from dslc.catalog import CatalogEntry
from dslc.check.declarations import Declaration, FileDeclarations, Location, Subject
from dslc.check.prices import fallbacks_of, missing_prices
from dslc.check.reply_room import window_of_block
from dslc.diagnostics.diagnostic import CODES, Diagnostic, Edit, Fix, Label, Severity
from dslc.diagnostics.suggestion import KnownNames, nearest, suggestion
from dslc.syntax.quoting import quoted, write_name
from dslc.value_reading.check_state import LOST_REFERENCE

Found = TypeVar("Found")

_MOST_COMPARISONS = 20_000  # comparisons of missing with declared names, per program
_MAIN: Subject = ("main", "agent", "")
"""The agents with which persons talk; one of them is the main one."""
_LABELLED = 5
"""Maximum number of other agents that a diagnostic points at."""
_PLURALS = {"memory": "memories", "agent": "agents", "model": "models", "mcp": "servers"}
_USERS = {
    "agent": "a webhook",
    "memory": "a webhook or an agent",
    "model": "an agent or a memory",
    "mcp": "the `tools` of an agent",
}
"""Kind of block → blocks that refer to one."""


class References:
    """The subjects of a whole program and their diagnostics, updated file by file."""

    def __init__(
        self,
        default_folder: str,
        fileless: Collection[str] = (),
        services: Mapping[str, Mapping[str, CatalogEntry]] = MappingProxyType({}),
    ) -> None:
        """`default_folder`: path of a memory without `path`. `fileless`: stores whose memories have no path.
        `services`: by kind of block, the rows that may be named instead of one."""
        self._services = services
        self._default_folder = default_folder
        self._fileless = fileless
        self._files: dict[str, FileDeclarations] = {}
        self._declared: dict[Subject, dict[str, list[Declaration]]] = defaultdict(dict)
        self._used: dict[Subject, dict[str, list[Location]]] = defaultdict(dict)
        self._replies: dict[Subject, dict[str, list[tuple[int, Location]]]] = defaultdict(dict)  # of agents, by model
        self._costs: dict[Subject, dict[str, list[Location]]] = defaultdict(dict)  # limits of agents, by model
        self._relying: dict[Subject, dict[str, list[Subject]]] = defaultdict(dict)  # models, by fallback
        self._below: dict[str, set[str]] = defaultdict(set)  # folders of memories, by each of their parent folders
        self._ordered: dict[Subject, list[Declaration]] = {}  # the same as `_declared`, in program order
        self._firsts: dict[Subject, list[Declaration]] = {}  # of a path; cleared when a file is replaced
        self._known: dict[str, KnownNames] = {}  # the declared names of a kind, until they change
        self._missing: dict[str, set[Subject]] = defaultdict(set)  # names of a kind that are used but not declared
        self._meant: dict[Subject, Subject] = {}  # the declared names that they were probably meant to be
        self._typos: Counter[Subject] = Counter()  # number of misspellings of a declared name
        self._mentions: Counter[str] = Counter()
        self._nameless: Counter[str] = Counter()
        self._incomplete: set[str] = set()
        self._sole: Subject | None = None
        self._dirty: set[Subject] = set()
        self._reported: dict[Subject, list[Diagnostic]] = {}
        self._by_file: dict[str, dict[Subject, list[Diagnostic]]] = defaultdict(dict)

    def diagnostics(self, file: str) -> list[Diagnostic]:
        """Diagnostics of a file, by their subjects."""
        return [found for _, about in sorted(self._by_file.get(file, {}).items()) for found in about]

    def declarations(self, kind: str, name: str) -> list[Declaration]:
        """The blocks with this kind and name, in program order."""
        return [*self._in_order(("name", kind, name))]

    def uses(self, kind: str, name: str) -> list[Location]:
        """Locations that refer to this block."""
        return [location for some in self._used.get(("name", kind, name), {}).values() for location in some]

    def names(self, kind: str) -> list[str]:
        """The declared names of a kind, sorted: messages must not depend on the order in which files were added."""
        return [*self._names_of(kind).all]

    def recheck(self) -> set[str]:
        """Check the subjects that changed since the last call. Returns the files whose diagnostics may have changed."""
        files: set[str] = set()
        while self._dirty:  # a misspelt name affects the diagnostics of the name that was meant
            dirty, self._dirty = self._dirty, set()
            files |= {file for subject in dirty for file in self._recheck_subject(subject)}
        return files

    def _names_of(self, kind: str) -> KnownNames:
        if kind not in self._known:
            found = (subject[2] for subject in self._declared if subject[:2] == ("name", kind))
            self._known[kind] = KnownNames(sorted(found))
        return self._known[kind]

    def _in_order(self, subject: Subject) -> list[Declaration]:
        """The declarations of a subject, in program order."""
        if subject not in self._ordered:
            found = (block for some in self._declared.get(subject, {}).values() for block in some)
            self._ordered[subject] = sorted(found, key=lambda block: block.location.rank)
        return self._ordered[subject]

    def replace(self, file: str, new: FileDeclarations | None) -> None:
        """Replace the declarations of a file; None removes the file."""
        old = self._files.pop(file, None)
        self._firsts.clear()
        dirty: set[Subject] = set()
        for declared_file in filter(None, (old, new)):
            dirty.update(declared_file.subjects())
        dirty |= self._flags(old, new) | self._unresolved_names(old, new)
        dirty |= {missing for missing, meant in self._meant.items() if meant in dirty}  # a label shows its location
        full = {kind: self._too_many_missing(kind) for kind in _PLURALS}
        if old is not None:
            self._remove(old)
        if new is not None:
            self._files[file] = new
            self._insert(new)
        dirty |= {above for each in dirty for some in self._relying.get(each, {}).values() for above in some}
        for subject in {subject for each in (old, new) if each for subject in each.subjects()}:
            is_missing = subject in self._used and subject not in self._declared
            (self._missing[subject[1]].add if is_missing else self._missing[subject[1]].discard)(subject)
        for kind, was in full.items():
            dirty |= self._missing[kind] if self._too_many_missing(kind) != was else set()
        dirty |= self._sole_memory()
        before = [subject for subject in dirty if subject[0] == "name"]
        self._dirty |= dirty | self._paths(old, new, before)

    def _unresolved_names(self, old: FileDeclarations | None, new: FileDeclarations | None) -> set[Subject]:
        """Names that are used but not declared, if the declared names of their kind changed, since one of these may be
        meant."""
        names = [{(each.kind, each.name) for each in side.declarations} if side else set() for side in (old, new)]
        kinds = {kind for kind, _ in names[0] ^ names[1]}
        return (
            {subject for subject in self._reported if subject[0] == "name" and subject[1] in kinds} if kinds else set()
        )

    def _insert(self, new: FileDeclarations) -> None:
        for declaration in new.declarations:
            subject = ("name", declaration.kind, declaration.name)
            self._declare(subject, declaration)
            for path in self._paths_of(declaration):
                self._declare(path, declaration)
                if path[1] == "memory":
                    for above in _parents(path[2]):
                        self._below[above].add(path[2])
        for kind, name, location in new.uses:
            self._used["name", kind, name].setdefault(new.file, []).append(location)
        for name, tokens, location in new.replies:
            self._replies["name", "model", name].setdefault(new.file, []).append((tokens, location))
        for name, location in new.cost_limits:
            self._costs["name", "model", name].setdefault(new.file, []).append(location)
        for model in new.declarations:
            for name in fallbacks_of(model) if model.kind == "model" else ():
                self._relying["name", "model", name].setdefault(new.file, []).append(("name", "model", model.name))

    def _declare(self, subject: Subject, declaration: Declaration) -> None:
        if subject not in self._declared:
            self._known.pop(subject[1], None)
        self._declared[subject].setdefault(declaration.location.file, []).append(declaration)
        self._ordered.pop(subject, None)

    def _remove(self, old: FileDeclarations) -> None:
        for declaration in old.declarations:
            for subject in [("name", declaration.kind, declaration.name), *self._paths_of(declaration)]:
                self._declared[subject].pop(old.file, None)
                self._ordered.pop(subject, None)
                if not self._declared[subject]:
                    del self._declared[subject]
                    self._known.pop(subject[1], None)
                    if subject[:2] == ("path", "memory"):
                        for above in _parents(subject[2]):
                            self._below[above].discard(subject[2])
        for kind, name, _ in old.uses:
            self._used["name", kind, name].pop(old.file, None)
            if not self._used["name", kind, name]:
                del self._used["name", kind, name]
        self._remove_from_models(old)

    def _remove_from_models(self, old: FileDeclarations) -> None:
        """Remove what the blocks of a file need of models."""
        for name, *_ in old.replies:
            _forget(self._replies, name, old.file)
        for name, _ in old.cost_limits:
            _forget(self._costs, name, old.file)
        for model in old.declarations:
            for name in fallbacks_of(model) if model.kind == "model" else ():
                _forget(self._relying, name, old.file)

    def _flags(self, old: FileDeclarations | None, new: FileDeclarations | None) -> set[Subject]:
        """Update mentions, nameless kinds and incomplete files. Returns the subjects whose diagnostics may change."""
        mentioned = Counter(new.mentions if new else ()), Counter(old.mentions if old else ())
        nameless = Counter(new.nameless if new else ()), Counter(old.nameless if old else ())
        words = {word for word in mentioned[0] | mentioned[1] if mentioned[0][word] != mentioned[1][word]}
        changed = (kind for kind in nameless[0] | nameless[1] if nameless[0][kind] != nameless[1][kind])
        kinds = {kind.removeprefix(LOST_REFERENCE) for kind in changed}
        for counter, (more, less) in ((self._mentions, mentioned), (self._nameless, nameless)):
            counter.update(more)
            counter.subtract(less)
        was = bool(self._incomplete)
        name = (new or old or FileDeclarations("", (0, ()))).file
        self._incomplete.discard(name)
        if new is not None and not new.complete:
            self._incomplete.add(name)
        subjects = [*self._declared, *self._used] if kinds or was != bool(self._incomplete) else []
        touched = {subject for subject in subjects if was != bool(self._incomplete) or subject[1] in kinds}
        return touched | {("name", kind, word) for word in words for kind in _PLURALS}

    def _sole_memory(self) -> set[Subject]:
        """Update the only memory of the program, which blocks without `memory` use. Returns the subjects affected."""
        memories = (subject for subject in self._declared if subject[:2] == ("name", "memory"))
        first, second = next(memories, None), next(memories, None)
        sole = first if second is None else None
        touched = {self._sole, sole} - {None} if sole != self._sole else set()
        self._sole = sole
        return {subject for subject in touched if subject}

    def _paths(
        self, old: FileDeclarations | None, new: FileDeclarations | None, names: Iterable[Subject]
    ) -> set[Subject]:
        """Paths of blocks that were added, removed, or became the first of their name, and the paths near them."""
        blocks = [block for each in (old, new) if each for block in each.declarations]
        blocks += [block for subject in names for some in self._declared.get(subject, {}).values() for block in some]
        paths = {path for block in blocks for path in self._paths_of(block)}
        for path in [path for path in paths if path[1] == "memory"]:
            near = {*_parents(path[2]), *self._below.get(path[2], ())}
            paths |= {("path", "memory", folder) for folder in near}
        return paths

    def _paths_of(self, declaration: Declaration) -> list[Subject]:
        """The path that a webhook answers on or a memory writes to; empty if it is unreadable or the memory has no
        files. An agent with a model shares `_MAIN` with the others."""
        checked = declaration.checked
        if _is_conversational(declaration):
            return [_MAIN]
        if checked is None or declaration.kind not in {"webhook", "memory"}:
            return []
        if self._is_fileless(declaration):
            return []
        path = checked.given.values.get("path")
        if path is None and declaration.kind == "memory" and not checked.given.may_have("path"):
            path = self._default_folder
        if path is None:
            return []
        if declaration.kind == "webhook":
            return [("path", "webhook", str(path))]
        folder = posixpath.normpath(str(path))
        return [("path", "memory", folder[1:] if folder.startswith("//") else folder)]

    def _is_fileless(self, declaration: Declaration) -> bool:
        """True for a memory without files, which clients fill and search by name."""
        store = declaration.checked.given.entry("store") if declaration.checked else None
        return declaration.kind == "memory" and store is not None and store.word in self._fileless

    def _recheck_subject(self, subject: Subject) -> set[str]:
        """Check a subject again. Returns the files whose diagnostics changed."""
        files = {diagnostic.file for diagnostic in self._reported.pop(subject, ())}
        for file in files:
            self._by_file[file].pop(subject, None)
        judge = {"name": self._check_names, "path": self._check_paths, "main": self._check_main}[subject[0]]
        diagnostics = list(judge(subject))
        if diagnostics:
            self._reported[subject] = diagnostics
        for diagnostic in diagnostics:
            self._by_file[diagnostic.file].setdefault(subject, []).append(diagnostic)
            files.add(diagnostic.file)
        return files

    def _check_names(self, subject: Subject) -> Iterator[Diagnostic]:
        """Check that each used name is declared (R301), and each declared name is used (R302) and unique (N204), and
        that the window of a model has room for the requests of its agents, and that it has the prices that their limits
        need (T405)."""
        _, kind, name = subject
        declared = self._in_order(subject)
        for second in [block for block in declared if block.checked][1:]:
            first = declared[0].location
            yield _diagnostic(
                "N204",
                f"a second `{kind}` is called `{name}`",
                second.location,
                hint="rename one of them",
                labels=[("first declared here", first)],
            )
        if declared:
            yield from self._check_replies(subject, declared[0])
            yield from self._check_costs(subject, declared[0])
        quiet = self._incomplete or kind not in _PLURALS or self._mentions[name] > 0
        uses = self.uses(kind, name)
        missing = not quiet and bool(uses) and not declared and self._nameless[kind] <= 0
        near = self._resolve(subject, missing=missing)
        if quiet:
            return
        lost = self._nameless[f"{LOST_REFERENCE}{kind}"] > 0
        if missing:
            yield from self._undeclared_name(kind, name, near, uses)
        implied = subject == self._sole or (kind, name) == ("memory", "default")
        implied = implied or any(_is_offered(each) or _is_conversational(each) for each in declared[:1])
        implied = implied or any(map(self._is_fileless, declared[:1])) or self._typos[subject] > 0
        if declared and declared[0].checked and not uses and not implied and not lost:
            hint = f"refer to it in {_USERS[kind]}"
            yield _diagnostic("R302", f"`{kind} {name}` is never used", declared[0].location, hint=hint)

    def _check_replies(self, subject: Subject, model: Declaration) -> Iterator[Diagnostic]:
        """T405 at every `reply_tokens` of an agent that is not smaller than the window of its model."""
        window = window_of_block(self._services.get("model", {}), model.checked.given) if model.checked else None
        if window is None:
            return
        at = window.entry
        labels = [(f"`{window.setting}` is given here", model.at(at.key))] if at is not None else []
        for reply, location in [each for some in self._replies.get(subject, {}).values() for each in some]:
            if reply >= window.tokens:
                message, hint = window.misfit(reply, model.name)
                yield _diagnostic("T405", message, location, hint=hint, labels=labels)

    def _check_costs(self, subject: Subject, model: Declaration) -> Iterator[Diagnostic]:
        """T405 at every `cost_per_day` of an agent whose model, or a fallback of it, has no prices."""
        limits = [each for some in self._costs.get(subject, {}).values() for each in some]
        if not limits:
            return
        named_ones = (self._in_order(("name", "model", name))[:1] for name in fallbacks_of(model))
        for message, hint, label in missing_prices(model, [block for some in named_ones for block in some]):
            for location in limits:
                yield _diagnostic("T405", message, location, hint=hint, labels=[label])

    def _resolve(self, subject: Subject, *, missing: bool) -> str | None:
        """The declared name that a missing one was probably meant to be; it is not reported as unused. None if there is
        none."""
        _, kind, name = subject
        near = self._names_of(kind).nearest(name) if missing and not self._too_many_missing(kind) else None
        meant: Subject | None = ("name", kind, near) if near else None
        before = self._meant.pop(subject, None)
        if meant:
            self._meant[subject] = meant
        if meant != before:
            for each, count in ((before, -1), (meant, 1)):
                if each:
                    self._typos[each] += count
                    self._dirty.add(each)
        return near

    def _too_many_missing(self, kind: str) -> bool:
        """True if too many names are missing to search for the nearest name of each."""
        comparisons = self._names_of(kind).comparisons + len(self._services.get(kind, ()))
        return len(self._missing[kind]) * comparisons > _MOST_COMPARISONS

    def _undeclared_name(self, kind: str, name: str, near: str | None, uses: list[Location]) -> Iterator[Diagnostic]:
        """R301 at every use of a missing name, N209 if it is the server of a tool; `near` is the name that was probably
        meant."""
        code, message, severity = "R301", f"no {kind} is called `{name}`", Severity.ERROR
        if kind == "mcp":
            code, message = "N209", f"no `mcp` block is called `{name}`"
        if kind == "agent":
            message, severity = f"{message}: deliveries will only be recorded", Severity.WARNING
        labels = []
        if near is not None:
            labels = [("declared here", self._in_order(("name", kind, near))[0].location)]
        for location in uses:
            meant, hint = self._suggest(kind, name, near, location)
            # The server of a tool is a part of a string.
            text = meant if meant is None or kind == "mcp" else write_name(meant)
            fix = Fix(f"write `{meant}`", (Edit(location.span, text),)) if text else None
            yield _diagnostic(code, message, location, hint=hint, severity=severity, labels=labels, fix=fix)

    def _suggest(self, kind: str, name: str, near: str | None, location: Location) -> tuple[str | None, str | None]:
        """The word that was probably meant at a use of a missing name, and the hint about it."""
        if near is not None:  # either of the two may be misspelt
            return near, f"`{kind} {write_name(near)}` is declared: use the same name for both"
        if name in self._services.get(kind, ()):
            return None, f"`{name}` is a service: declare a `{kind}` with it, and use its name here"
        if self._too_many_missing(kind):
            return None, None
        row = nearest(name, location.rows) if location.rows else None
        if row is not None:
            return row, f"did you mean `{row}`?"
        what = f"{'services and ' if location.rows else ''}declared {_PLURALS[kind]}"
        return None, suggestion("", [*location.rows, *self._names_of(kind).all], what=what)

    def _check_paths(self, subject: Subject) -> Iterator[Diagnostic]:
        """Check that two webhooks do not share a path (N205), and that memories do not share or nest folders (N208).

        Memories in the same or nested folders would write into each other's files.
        """
        _, kind, path = subject
        here = self._first_blocks(subject)
        if kind == "webhook":
            for second in here[1:]:
                message = f"the path of `{second.name}` is already taken"
                labels = [(f"`{here[0].name}` uses this path first", here[0].setting("path"))]
                hint = "use a different path"
                yield _diagnostic("N205", message, second.setting("path"), hint=hint, labels=labels)
            return
        if not here:
            return
        beside = ({*_parents(path)} | self._below.get(path, set())) - {path}
        firsts = [(self._first_blocks(("path", "memory", folder))[:1], folder) for folder in beside]
        earlier = [
            (some[0], folder) for some, folder in firsts if some and some[0].location.rank < here[0].location.rank
        ]
        if earlier:
            first, folder = min(earlier, key=lambda each: each[0].location.rank)
            yield _nested_folders(first, folder, here[0], path)
        yield from (_nested_folders(here[0], path, block, path) for block in here[1:])

    def _check_main(self, subject: Subject) -> Iterator[Diagnostic]:
        """Check that only one agent is the main one (T405), and that one is if several have a model (R304)."""
        agents = [(each, each.checked.given) for each in self._first_blocks(subject) if each.checked is not None]
        main = [each for each, given in agents if given.values.get("main") is True]
        if main:
            labels = [(f"`{main[0].name}` is the main agent", main[0].setting("main"))]
            for second in main[1:]:
                message = f"`{second.name}` is a second main agent"
                yield _diagnostic("T405", message, second.setting("main"), hint="remove one `main`", labels=labels)
            return
        able = [each for each, given in agents if given.values.get("enabled") is not False]
        unread = any("main" not in given.values and given.may_have("main") for _, given in agents)
        if len(able) > 1 and not unread and not self._incomplete:
            labels = [("this agent has a model too", each.location) for each in able[1 : 1 + _LABELLED]]
            message = f"{len(able)} agents have a model, and none is the main one"
            hint = "add `main true` to the one with which a user talks who names none"
            yield _diagnostic("R304", message, able[0].location, hint=hint, labels=labels)

    def _first_blocks(self, subject: Subject) -> list[Declaration]:
        """The blocks of a subject, in program order, without those that repeat the name of an earlier block."""
        if subject not in self._firsts:
            self._firsts[subject] = [
                block
                for block in self._in_order(subject)
                if self._in_order(("name", block.kind, block.name))[0] is block
            ]
        return self._firsts[subject]


def _forget(about: dict[Subject, dict[str, list[Found]]], model: str, file: str) -> None:
    """Remove what a file says about a model."""
    subject = ("name", "model", model)
    about[subject].pop(file, None)
    if not about[subject]:
        del about[subject]


def _is_offered(declaration: Declaration) -> bool:
    """True for a model that users may give to agents."""
    return declaration.checked is not None and declaration.checked.given.values.get("offered") is True


def _is_conversational(declaration: Declaration) -> bool:
    """True for an agent with a model, with which persons talk."""
    if declaration.kind != "agent" or declaration.checked is None:
        return False
    model = declaration.checked.given.entry("model")
    return model is not None and model.word != "none"


def _nested_folders(first: Declaration, taken: str, block: Declaration, path: str) -> Diagnostic:
    """N208 at `block` with folder `path`, because `first` uses the folder `taken`."""
    verb = "use the same path" if taken == path else "use nested paths"
    free = [
        folder
        for folder in (f"data/{block.name}", block.name)
        if not {folder, *_parents(folder)} & {taken, path} and folder not in {*_parents(taken), *_parents(path)}
    ]
    example = f", such as `path {quoted(free[0])}`" if free else ""
    return _diagnostic(
        "N208",
        f"the memories `{first.name}` and `{block.name}` {verb}",
        block.setting("path"),
        hint=f"use a different path{example}",
        labels=[(f"path of `{first.name}`", first.setting("path"))],
    )


def _parents(path: str) -> list[str]:
    """The parent folders of a normalised path; `.` is a parent of every relative path."""
    parents = []
    while path not in {"/", ".", ""}:
        path = posixpath.dirname(path) or "."
        parents.append(path)
    return parents


def _diagnostic(
    code: str,
    message: str,
    location: Location,
    *,
    hint: str | None,
    labels: Iterable[tuple[str, Location]] = (),
    severity: Severity | None = None,
    fix: Fix | None = None,
) -> Diagnostic:
    marked = tuple(Label(text, place.file, place.span) for text, place in labels)
    return Diagnostic(code, severity or CODES[code][0], message, location.file, location.span, marked, hint, fix)
