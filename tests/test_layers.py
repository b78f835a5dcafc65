"""The shape of the code: no module imports itself in a circle, not even late."""

from __future__ import annotations

import grimp


def test_no_module_imports_itself_in_a_circle() -> None:
    graph = grimp.build_graph("dslc", "runtime", "grammar", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(imports) > 50
    assert _circle(imports) is None


def _circle(imports: dict[str, set[str]]) -> list[str] | None:
    """One circle as a list of modules, or None. Importing a package's submodule imports the package only at run time,
    so a package and its own parts are told apart as Python's import system does: by who names whom."""
    done: set[str] = set()
    for start in sorted(imports):
        path: list[str] = []
        stack = [(start, iter(sorted(imports[start])))]
        path.append(start)
        while stack:
            module, targets = stack[-1]
            target = next((name for name in targets if name not in done), None)
            if target is None:
                done.add(module)
                stack.pop()
                path.pop()
            elif target in path:
                return [*path[path.index(target) :], target]
            else:
                stack.append((target, iter(sorted(imports.get(target, set())))))
                path.append(target)
    return None


def test_a_circle_would_be_found() -> None:
    assert _circle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) == ["a", "b", "c", "a"]
    assert _circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None
