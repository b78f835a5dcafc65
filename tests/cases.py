"""`each_case`: one test for all rows of a table that it only reads. All failures are reported, each with its row.

`pytest.mark.parametrize` makes a test of each row, which costs a set-up, a line of the report, and time of every worker
that collects it. It is right for few cases, and for those that need a state of their own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import pytest
from _pytest.mark import ParameterSet

Test = Callable[..., Any]
_SHOWN = 1000
"""Characters of a row in a report."""


class Failures:
    """The failures of a test's cases."""

    def __init__(self) -> None:
        self._errors: list[BaseException] = []
        self._cases = 0

    @contextmanager
    def case(self, label: str) -> Iterator[None]:
        """Keep an exception inside for `end`, with the label of its case."""
        self._cases += 1
        try:
            yield
        except (Exception, pytest.fail.Exception) as error:
            error.add_note(f"case: {label[:_SHOWN]}")
            self._errors.append(error)

    def end(self) -> None:
        """Raise a BaseExceptionGroup if a case failed."""
        if self._errors:
            raise BaseExceptionGroup(f"{len(self._errors)} of {self._cases} cases", self._errors)


def each_case(
    names: str | tuple[str, ...], cases: Iterable[Any], label: Callable[[Any], object] = repr
) -> Callable[[Test], Test]:
    """Call the test once for each of `cases`: values of the parameters `names`, as in `pytest.mark.parametrize`.
    Fixtures are the same for all of them. `label`: shown of a case that fails; of several values it gets a tuple."""
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    values = [case.values if isinstance(case, ParameterSet) else (case,) if len(keys) == 1 else case for case in cases]
    rows = [
        (str(label(row[0] if len(row) == 1 else row)), dict(zip(keys, row, strict=True))) for row in map(tuple, values)
    ]
    assert rows, names

    def calling(test: Test) -> Test:
        def called(**fixtures: Any) -> None:
            failures = Failures()
            for name, row in rows:
                with failures.case(name):
                    test(**fixtures, **row)
            failures.end()

        async def awaited(**fixtures: Any) -> None:
            failures = Failures()
            for name, row in rows:
                with failures.case(name):
                    await test(**fixtures, **row)
            failures.end()

        made: Any = wraps(test)(awaited if inspect.iscoroutinefunction(test) else called)
        signature = inspect.signature(test)
        rest = [parameter for name, parameter in signature.parameters.items() if name not in keys]
        made.__signature__ = signature.replace(parameters=rest)
        return made  # type: ignore[no-any-return]

    return calling
