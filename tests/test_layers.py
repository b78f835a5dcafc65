"""The structure of the code: small folders, and imports in one direction."""

from __future__ import annotations

import ast
import configparser
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import grimp

ROOT = Path(__file__).parent.parent
PACKAGES = ("dslc", "runtime", "grammar")
MOST_FILES = 15
TABLES_OF_ROWS = frozenset({"runtime/webhooks/providers", "runtime/database/migrations/versions"})
"""Folders that have one file for each row of a table, and grow with it."""
COMPILER_CALLERS = ("runtime.cli", "runtime.daemon.program.reload")
READS_SOURCES = {("runtime.daemon.program.app", "dslc.files"), ("runtime.daemon.process.root", "dslc.files")}
"""Imports that find the files of a program and do not compile them."""

Graph = Mapping[str, frozenset[str]]


def test_no_folder_has_more_files_than_can_be_read_at_once() -> None:
    counted = Counter(str(path.parent) for path in _python_files())
    too_long = {folder: count for folder, count in counted.items() if count > MOST_FILES}
    assert {folder: count for folder, count in too_long.items() if folder not in TABLES_OF_ROWS} == {}


def test_no_module_imports_itself_through_others() -> None:
    imports = _imports()
    assert len(imports) > 50
    assert _cycle(imports) is None


def test_no_folder_imports_itself_through_its_neighbours() -> None:
    """No folder has a cycle: its files and subfolders are the nodes, imports between them the edges."""
    cycles = {folder: found for folder, nodes in _folders(_imports()).items() if (found := _cycle(nodes))}
    assert cycles == {}


def test_only_reload_and_the_commands_call_the_compiler() -> None:
    """The rest of the runtime uses only the result: blocks, their settings, and sources as data; and the version."""
    allowed = ("dslc.blocks", "dslc.program", "dslc.setting", "dslc.source", "dslc.version")
    calls = {
        (module, target)
        for module, targets in _imports().items()
        if _is_in(module, "runtime") and not any(_is_in(module, caller) for caller in COMPILER_CALLERS)
        for target in targets
        if _is_in(target, "dslc", "grammar") and not _is_in(target, *allowed)
    }
    assert calls == READS_SOURCES


def test_a_package_hands_on_no_names_of_its_modules() -> None:
    """An importer names the module that defines a name, so that it loads no more than it needs."""
    handed_on = {str(path): names for path in _python_files() if path.name == "__init__.py" if (names := _unused(path))}
    assert handed_on == {}


def test_the_order_names_each_package() -> None:
    order = configparser.ConfigParser()
    order.read(ROOT / ".importlinter")
    named = set(re.findall(r"runtime\.\w+", order["importlinter:contract:packages"]["layers"]))
    children = {module for module in _imports() if module.count(".") == 1 and _is_in(module, "runtime")}
    assert children - named == {"runtime.__main__"}


def test_a_cycle_would_be_found() -> None:
    assert _cycle(_graph({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == ["a", "b", "c", "a"]
    assert _cycle(_graph({"a": {"b", "c"}, "b": {"c"}, "c": set()})) is None


def test_a_cycle_of_folders_would_be_found() -> None:
    imports = _graph({"p.a.x": {"p.b.x"}, "p.b.x": set(), "p.b.y": {"p.a.y"}, "p.a.y": set()})
    assert _cycle(imports) is None
    assert _cycle(_folders(imports)["p"]) == ["a", "b", "a"]


def _is_in(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def _python_files() -> Iterator[Path]:
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    return (path for path in map(Path, listed.stdout.splitlines()) if (ROOT / path).exists())


def _unused(path: Path) -> list[str]:
    """Return names that an `__init__` imports from the project and does not use itself."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    imported = [
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").partition(".")[0] in PACKAGES)
        for alias in node.names
    ]
    return [name for name in imported if name not in used]


@cache
def _imports() -> Graph:
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    return _graph({module: graph.find_modules_directly_imported_by(module) for module in graph.modules})


def _graph(edges: Mapping[str, Iterable[str]]) -> Graph:
    return {node: frozenset(targets) for node, targets in edges.items()}


def _folders(imports: Graph) -> dict[str, Graph]:
    """Return by folder which files and subfolders import which. An `__init__` is a file of its package's folder."""
    packages = {module.rpartition(".")[0] for module in imports} - {""}
    paths = {module: f"{module}.__init__" if module in packages else module for module in imports}
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for module, targets in imports.items():
        for target in targets:
            folder, source, destination = _parted(paths[module], paths.get(target, target))
            if source != destination:
                found[folder][source].add(destination)
                found[folder][destination]
    return {folder: _graph(edges) for folder, edges in found.items()}


def _parted(one: str, other: str) -> tuple[str, str, str]:
    """Return the folder that two modules share, and the file or subfolder in which each is."""
    ones, others = one.split("."), other.split(".")
    shared = next((i for i, pair in enumerate(zip(ones, others, strict=False)) if pair[0] != pair[1]), 0)
    return ".".join(ones[:shared]), ones[shared], others[shared]


def _cycle(imports: Graph) -> list[str] | None:
    """Return one cycle as a list of nodes, or None.

    The import of a submodule does not count as one of its package: no `__init__` imports a module that needs it."""
    done: set[str] = set()
    for start in sorted(imports):
        path = [start]
        stack = [(start, iter(sorted(imports[start])))]
        while stack:
            node, targets = stack[-1]
            target = next((name for name in targets if name not in done), None)
            if target is None:
                done.add(node)
                stack.pop()
                path.pop()
            elif target in path:
                return [*path[path.index(target) :], target]
            else:
                stack.append((target, iter(sorted(imports.get(target, ())))))
                path.append(target)
    return None
