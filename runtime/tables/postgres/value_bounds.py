"""Bounds of the values of a statement, computed from its parse tree before it runs.

PostgreSQL has no limit of memory for a role, and a function that has begun to make a value is neither cancelled nor
refused. A stored row has at most MOST_ROW_BYTES, and a value is no longer than what it is made of together, times a
factor of the function. A bound may be too low by a small factor (characters of four bytes, escapes of control
characters), but not by one that grows with the statement. How many rows an aggregate collects is bounded while it runs;
see `aggregates`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from runtime.tables.errors import StatementError
from runtime.tables.postgres.aggregates import MOST_COLLECTED
from runtime.tables.postgres.allowlist import COMPARING, COSTLY, FUNCTIONS, ORDERING, Growth
from runtime.tables.postgres.values import LARGEST_EXPONENT, expanded_bytes
from runtime.tables.sql_database import MOST_ROW_BYTES

MOST_VALUE: Final = 32 * 1024 * 1024
"""Maximum bytes of a value during a statement."""
MOST_MADE: Final = 8 * MOST_VALUE
"""Maximum bytes of all values together that a statement makes for one row: they are in memory at once."""
MOST_STORED: Final = 2 * 1024 * 1024
"""Maximum bytes of a value that INSERT or UPDATE may try to store: what definitions make of it is in memory too."""
MOST_DEFINED: Final = 8 * MOST_ROW_BYTES
"""Maximum bytes of the values that the definitions of one statement (checks, indexes …) make of a row."""
MOST_RECURSIVE: Final = 8 * MOST_ROW_BYTES
"""Maximum bytes of a value of a recursive query, in each round."""
MOST_COMPARED: Final = 500_000_000
"""Maximum product of the sizes of a text and of what is looked for in it."""
MOST_COUNT: Final = 10_000
"""Maximum of a count: of lpad, repeat, generate_series."""
SHORT_PARAMETER: Final = 4096
"""Bytes up to which a parameter is taken for short."""
NUMBER: Final = 150_000
"""Maximum characters of a NUMERIC."""
SMALL: Final = 64
_EXPANSION: Final = LARGEST_EXPONENT // 8
"""Growth factor of a text as JSON, or as an array of NUMERIC: `1e131071` becomes a number of so many digits."""
_ELEMENT: Final = 16
"""Growth factor of a text as an array: each element has a header."""
_RESULTS: Final[Mapping[Growth, int]] = MappingProxyType(
    {
        "small": SMALL,
        "float": SMALL,
        "series": SMALL,
        "pattern": 20 * SMALL,
        "number": NUMBER,
        "collect": MOST_COLLECTED,
    }
)
"""Maximum bytes of results, whatever the arguments are."""
_FACTORS: Final[Mapping[Growth, int]] = MappingProxyType({"double": 2, "json": 2, "split": _ELEMENT})
"""Growth factor of a result against all arguments together, where it may be longer."""
_TEXTS: Final = frozenset({"text", "varchar", "bpchar"})
_EXPANDING: Final = frozenset({"json", "jsonb"})
_JSON: Final = ("json_build", "jsonb_build", "json_agg", "jsonb_agg", "to_json")
"""Prefixes of functions that return JSON."""
_MADE: Final = frozenset({"FuncCall", "A_Expr", "TypeCast", "A_ArrayExpr", "RowExpr", "SubLink"})
"""Nodes that make a value."""
_FIRST: Final = ("withClause", "fromClause", "usingClause")
"""Fields whose columns the other fields of a node may name."""


class Columns(NamedTuple):
    """The bounds of a column, and of a whole row, of all that a part of a statement may name."""

    column: int = MOST_ROW_BYTES
    row: int = MOST_ROW_BYTES


class ValueBounds:
    """Computes the bounds of one statement. `parameter`: the maximum bytes of a parameter."""

    def __init__(self, parameter: int) -> None:
        self._parameter = parameter
        self._columns = Columns()
        self._relations: frozenset[str] = frozenset()
        self._made = 0
        self._most_made = MOST_MADE

    def check(self, statement: Any) -> None:
        """Raises StatementError if a value could grow too much."""
        self._relations = frozenset(_relations(statement))
        if type(statement).__name__ == "SelectStmt":
            self._query(statement)
            return
        if type(statement).__name__ not in ("InsertStmt", "UpdateStmt", "DeleteStmt"):
            self._most_made = MOST_DEFINED
        late = ("targetList", "selectStmt", "onConflictClause", "returningClause")
        self._fold(statement, without=late)
        values, query, conflict, returning = (getattr(statement, name, None) for name in late)
        if query is not None:
            self._widen(_check_stored(self._query(query)))
        self.expression(conflict)
        for target in (*(values or ()), *((conflict and conflict.targetList) or ())):
            size = self.expression(target)
            self._widen(_check_stored(Columns(size, size + self._columns.row)))
        self.expression(returning)

    def expression(self, node: Any) -> int:
        """Return the bound of an expression in bytes. Raises StatementError if it is too large."""
        bound = self._bound(node)
        if type(node).__name__ in _MADE:
            self._made += bound
        if bound > MOST_VALUE or self._made > self._most_made:
            raise StatementError(
                "the values of this statement could grow too long",
                hint="shorten what is combined, such as left(column, 1000)",
            )
        return bound

    def _bound(self, node: Any) -> int:
        rule = getattr(self, f"_of_{type(node).__name__.lower()}", self._fold)
        return sum(map(self.expression, node)) if isinstance(node, tuple) else int(rule(node))

    def _of_a_const(self, node: Any) -> int:
        return SMALL if node.isnull else _literal(node.val)

    def _of_selectstmt(self, node: Any) -> int:
        return self._query(node).column

    def _of_paramref(self, _node: Any) -> int:
        return self._parameter

    def _of_columnref(self, node: Any) -> int:
        whole = _is_star(node) or (len(node.fields) == 1 and node.fields[0].sval in self._relations)
        return 2 * max(self._columns) if whole else self._columns.column  # quotes in a row are doubled

    def _of_a_arrayexpr(self, node: Any) -> int:
        return 2 * self._fold(node) + SMALL  # with escapes, as text

    _of_rowexpr = _of_a_arrayexpr

    def _of_boolexpr(self, node: Any) -> int:
        self._fold(node)
        return SMALL

    _of_nulltest = _of_booleantest = _of_boolexpr

    def _of_rangesubselect(self, node: Any) -> int:
        self._widen(self._query(node.subquery))
        return 0

    def _of_rangefunction(self, node: Any) -> int:
        size = self.expression(node.functions)
        self._widen(Columns(size, size))
        return 0

    def _fold(self, node: Any, without: Sequence[str] = ()) -> int:
        """Return the sum of the bounds of all fields of a node."""
        children = [each for each in (fields(node) if _is_node(node) else ()) if each[0] not in without]
        children.sort(key=lambda each: (*_FIRST, each[0]).index(each[0]))
        return sum(self.expression(value) for _, value in children if isinstance(value, tuple) or _is_node(value))

    def _query(self, node: Any) -> Columns:
        """Return the bounds of what a query returns."""
        around = self._columns
        self.expression(node.withClause)
        if node.larg is not None:
            found = _larger(self._query(node.larg), self._query(node.rarg))
            self._widen(found)
        else:
            self.expression(node.fromClause)
            rows = [
                [self._target(each, node.fromClause) for each in row]
                for row in (node.targetList or (), *(node.valuesLists or ()))
            ]
            found = Columns(max((each.column for row in rows for each in row), default=0), max(map(_row, rows)))
        self._fold(node, without=("withClause", "larg", "rarg", "fromClause", "targetList", "valuesLists"))
        self._columns = around
        return found

    def _target(self, node: Any, items: Any) -> Columns:
        value = node.val if type(node).__name__ == "ResTarget" else node
        if _is_star(value):
            several = sum(type(each).__name__.startswith("Range") for each in nodes(items or ()))
            return Columns(self._columns.column, self._columns.row * max(1, several))
        size = self.expression(value)
        return Columns(size, size)

    def _of_withclause(self, node: Any) -> int:
        later = {each.ctename for each in node.ctes} if node.recursive else set()
        for each in node.ctes:
            if later & set(_relations(each.ctequery)):
                self._recursive(each.ctequery)
            else:
                self._widen(self._query(each.ctequery))
            later.discard(each.ctename)
        return 0

    def _recursive(self, query: Any) -> None:
        """Check a query that names itself, or one that comes later: its values may not grow in a round."""
        if not query.all:
            # All rows that differ are kept in memory.
            raise StatementError(
                "a recursive query needs UNION ALL",
                hint="add a condition such as depth < 20, and SELECT DISTINCT from the recursive query",
            )
        targets = sum(type(each).__name__ == "ResTarget" for each in nodes(query))
        self._widen(Columns(MOST_RECURSIVE, MOST_RECURSIVE * (targets + 1)))
        if self._query(query).column > self._columns.column:
            raise StatementError(
                "a value may grow in each round of a recursive query",
                hint="bound its length: left(tree.path || '/' || items.name, 1000)",
            )

    def _of_sublink(self, node: Any) -> int:
        self.expression(node.testexpr)
        size = self._query(node.subselect).column
        if node.subLinkType.name == "ARRAY_SUBLINK":
            raise StatementError("ARRAY(SELECT ...) is not possible", hint="SELECT array_agg(name) FROM items")
        return size if node.subLinkType.name == "EXPR_SUBLINK" else SMALL

    def _of_a_expr(self, node: Any) -> int:
        left, right = self.expression(node.lexpr), self.expression(node.rexpr)
        kind, name = node.kind.name, node.name[0].sval
        if name in COMPARING:
            _compare(name if "LIKE" not in kind else "LIKE", left, right)
        if kind == "AEXPR_NULLIF":
            return left
        if kind != "AEXPR_OP" or name in COMPARING or name in ORDERING:
            return SMALL
        if name in COSTLY or name == "+":
            return NUMBER
        return max(left, NUMBER) if name == "-" else left + right  # JSONB without a key

    def _of_typecast(self, node: Any) -> int:
        size = self.expression(node.arg)
        name, lengths = node.typeName.names[-1].sval, node.typeName.typmods
        if _is_plain(node.arg):
            return size
        if name in _EXPANDING or (name == "numeric" and node.typeName.arrayBounds):
            return size if _is_json(node.arg) else _expanded_size(size)
        if node.typeName.arrayBounds:
            return _ELEMENT * size
        if name in _TEXTS:  # of an array or a row it has escapes
            return 4 * int(lengths[0].val.ival) if lengths else 2 * size
        return NUMBER if name == "numeric" else size if name == "bytea" else SMALL

    def _of_funccall(self, node: Any) -> int:
        name: str = node.funcname[-1].sval
        arguments: Sequence[Any] = node.args or ()
        sizes = [self.expression(each) for each in arguments]
        self.expression((node.agg_filter, node.over))
        total = sum(sizes) + self.expression(node.agg_order)
        growth = FUNCTIONS[name]
        if growth == "collect":
            self._made += 2 * total  # the text that is counted
        if growth in ("find", "replace"):
            _compare(name, *sizes[:2])
        if growth in _RESULTS or not sizes:
            return _RESULTS.get(growth, total)
        match growth:
            case "separate":
                return sizes[0] * len(sizes) + total
            case "cut" | "pad":
                return _of_length(name, arguments, sizes[0], padded=growth == "pad")
            case "replace" | "join":
                texts = arguments[2:] if growth == "replace" else arguments[1:]
                return sizes[0] * (1 + sum(_text_literal(name, each) for each in texts))
        return _FACTORS.get(growth, 1) * total + SMALL

    def _widen(self, columns: Columns) -> None:
        """Add columns to those that the rest of the query may name."""
        self._columns = _larger(self._columns, columns)


def nodes(node: Any) -> Iterator[Any]:
    """Yield all nodes below a node or list, and itself."""
    if isinstance(node, tuple):
        for each in node:
            yield from nodes(each)
    elif _is_node(node):
        yield node
        for _, child in fields(node):
            yield from nodes(child)


def fields(node: Any) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a node, and their values."""
    for name in type(node).__slots__:
        yield name, getattr(node, name)


def _is_node(value: Any) -> bool:
    return type(value).__module__ == "pglast.ast"


def _relations(node: Any) -> Iterator[str]:
    """Yield the names of all that a whole row may be read from."""
    for each in nodes(node):
        kind = type(each).__name__
        if kind == "RangeVar":
            yield each.relname
        elif kind == "Alias":
            yield each.aliasname
        elif kind == "RangeFunction":
            yield from (each[0].funcname[-1].sval for each in each.functions if type(each[0]).__name__ == "FuncCall")


def _larger(one: Columns, other: Columns) -> Columns:
    return Columns(max(one.column, other.column), max(one.row, other.row))


def _row(targets: Iterable[Columns]) -> int:
    return sum(each.row for each in targets)


def _check_stored(columns: Columns) -> Columns:
    if columns.column > MOST_STORED:
        raise StatementError(
            "a value to be stored could get too long", hint="shorten it, such as left(string_agg(name, ','), 60000)"
        )
    return columns


def _is_plain(node: Any) -> bool:
    """True for literals and parameters, whose numbers are known before the statement runs."""
    return type(node).__name__ in ("A_Const", "ParamRef")


def _is_json(node: Any) -> bool:
    """True if the value of a node is certainly JSON, or fails."""
    if type(node).__name__ == "A_Expr":
        return node.name[0].sval in ("->", "#>")
    return type(node).__name__ == "FuncCall" and node.funcname[-1].sval.startswith(_JSON)


def _is_star(node: Any) -> bool:
    return type(node).__name__ == "ColumnRef" and type(node.fields[-1]).__name__ == "A_Star"


def _literal(value: Any) -> int:
    match type(value).__name__:
        case "String":
            return expanded_bytes(value.sval)
        case "Float":
            return len(value.fval)
    return SMALL


def _expanded_size(size: int) -> int:
    if size * _EXPANSION > MOST_VALUE:
        raise StatementError(
            "a text that is cast to JSON or numeric[] could get very long",
            hint="store it in a column of type JSONB, or shorten it: left(column, 500)::jsonb",
        )
    return size * _EXPANSION


def _integer(node: Any) -> int | None:
    if type(node).__name__ == "A_Const" and type(node.val).__name__ == "Integer":
        return int(node.val.ival)
    return None


def _of_length(name: str, arguments: Sequence[Any], size: int, *, padded: bool) -> int:
    """Return the bound of a text of so many characters as a literal says."""
    at = 2 if name.startswith("substr") else 1
    count = _integer(arguments[at]) if len(arguments) > at else None
    if padded and (count is None or count > MOST_COUNT):
        raise StatementError(f"{name} needs a number up to {MOST_COUNT:,} as argument {at + 1}, not an expression")
    if padded:
        return (size if name == "repeat" else 4) * max(0, count or 0)
    return size if count is None or count < 0 else min(size, 4 * count)


def _text_literal(name: str, node: Any) -> int:
    if type(node).__name__ != "A_Const":
        raise StatementError(f"{name} needs a text in quotes as argument, not an expression")
    return SMALL if node.isnull else _literal(node.val)


def _compare(what: str, text: int = 0, part: int = 0) -> None:
    if text * part > MOST_COMPARED:
        raise StatementError(
            f"{what} could take too long: both sides may be long",
            hint="shorten the one that is looked for, such as left(column, 1000), or use a shorter parameter",
        )
