"""Bounds of what a statement may produce, computed from its parse tree before it runs.

PostgreSQL has no limit of memory for a role, and one call of a function ends only when its result is complete: a
statement that doubles a text thirty times is neither cancelled nor refused. A stored value has at most MOST_ROW_BYTES;
from there each expression gets an upper bound of its text, and a statement with an expression beyond MOST_VALUE is
refused. A bound may be too low by a small factor (characters of four bytes, escapes of control characters), but not by
one that grows with the statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from runtime.tables.errors import StatementError
from runtime.tables.postgres.allowed import COMPARING, COSTLY, FUNCTIONS, Growth
from runtime.tables.postgres.values import LARGEST_EXPONENT, expanded_bytes
from runtime.tables.sql_database import MOST_ROW_BYTES

MOST_VALUE: Final = 32 * 1024 * 1024
"""Maximum bytes of a value during a statement."""
MOST_MADE: Final = 8 * MOST_VALUE
"""Maximum bytes of all values together that a statement makes for one row: they are in memory at once."""
MOST_COMPARED: Final = 500_000_000
"""Maximum product of the sizes of a text and of what is looked for in it."""
MOST_LIMIT: Final = 1000
"""Maximum LIMIT of what an aggregate such as string_agg collects."""
MOST_COUNT: Final = 10_000
"""Maximum of a count: of lpad, repeat, generate_series."""
SHORT_PARAMETER: Final = 4096
"""Bytes up to which a parameter is taken for short."""
NUMBER: Final = 150_000
"""Maximum characters of a NUMERIC."""
SMALL: Final = 64
_EXPANSION: Final = LARGEST_EXPONENT // 8
"""How much longer a text may get as JSONB, or as an array of NUMERIC: `1e131071` becomes a number of so many digits."""
_TEXTS: Final = frozenset({"text", "varchar", "bpchar"})
_MAKING: Final = frozenset({"FuncCall", "A_Expr", "TypeCast", "A_ArrayExpr", "RowExpr", "SubLink"})
"""Nodes that make a value."""
_RECURSIVE: Final = 4 * 1024 * 1024
"""Bytes to which a text may grow in a recursive query until its time is over, when each round adds one value."""


class Scope(NamedTuple):
    """What surrounds an expression: the bound of its columns, the bounds of the queries in WITH, the maximum number of
    rows that an aggregate sees (None: no bound), and whether it is in a subquery of an expression."""

    column: int = MOST_ROW_BYTES
    ctes: Mapping[str, int] = MappingProxyType({})
    rows: int | None = None
    nested: bool = False


class Sizes:
    """Computes bounds. `parameter`: the maximum bytes of a parameter. Raises StatementError beyond them."""

    def __init__(self, parameter: int) -> None:
        self._parameter = parameter
        self._made = 0
        self._casts_json = False
        """Whether a text is cast to JSON: it keeps the numbers as they are written, until it becomes JSONB."""
        self._rows: dict[str, int] = {}
        """The bounds of whole rows, by the names of queries in FROM and WITH: such a name can be a value."""

    def statement(self, node: Any) -> int:
        """Check a statement; return the bound of a row of its result, in bytes."""
        kind = type(node).__name__
        self._casts_json = any(map(_is_json_text, nodes(node)))
        if kind == "SelectStmt":
            largest = self.select(node, Scope())
            return _width(node, largest)
        scope = Scope(ctes=self._with(node, Scope()))
        if getattr(node, "selectStmt", None) is not None:
            self.select(node.selectStmt, scope)
        column = self._from(
            (*(getattr(node, "fromClause", None) or ()), *(getattr(node, "usingClause", None) or ())), scope
        )
        scope = scope._replace(column=max(MOST_ROW_BYTES, column))
        for name, child in fields(node):
            if name not in ("selectStmt", "withClause", "fromClause", "usingClause", "returningClause"):
                self._any(child, scope)
        returning = getattr(node, "returningClause", None)
        if returning is None:
            return SMALL
        return sum(self.expression(target.val, scope) for target in returning.exprs)

    def select(self, node: Any, scope: Scope) -> int:
        """Return the bound of each column of a query."""
        scope = scope._replace(ctes=self._with(node, scope))
        if node.larg is not None:
            largest = max(self.select(node.larg, scope), self.select(node.rarg, scope))
            self._rest(node, scope._replace(column=max(scope.column, largest), rows=None))
            return largest
        rows = _rows_of(node)
        inner = scope._replace(column=max(scope.column, self._from(node.fromClause or (), scope)), rows=rows)
        values = [self.expression(each, inner) for row in node.valuesLists or () for each in row]
        targets = [
            inner.column if _is_star(target.val) else self.expression(target.val, inner)
            for target in node.targetList or ()
        ]
        self._rest(node, inner)
        return max((*values, *targets), default=0)

    def expression(self, node: Any, scope: Scope) -> int:
        """Return the bound of an expression in bytes. Raises StatementError if it is too large."""
        bound = self._bound(node, scope)
        if type(node).__name__ in _MAKING:
            self._made += bound
        if bound > MOST_VALUE or self._made > MOST_MADE:
            raise StatementError(
                f"a value of this statement could grow beyond {MOST_VALUE // 1024 // 1024} MiB",
                hint="shorten what is combined, such as left(column, 1000)",
            )
        return bound

    def _bound(self, node: Any, scope: Scope) -> int:
        if node is None:
            return 0
        if isinstance(node, tuple):
            return sum(self.expression(each, scope) for each in node)
        rule = getattr(self, f"_of_{type(node).__name__.lower()}", None)
        if rule is not None:
            return int(rule(node, scope))
        self._children(node, scope)
        return SMALL

    def _of_a_const(self, node: Any, _scope: Scope) -> int:
        return SMALL if node.isnull else _constant(node.val)

    def _of_paramref(self, _node: Any, _scope: Scope) -> int:
        return self._parameter

    def _of_columnref(self, node: Any, scope: Scope) -> int:
        row = self._rows.get(getattr(node.fields[0], "sval", ""), 0)
        whole = len(node.fields) == 1 or type(node.fields[1]).__name__ == "A_Star"
        return max(scope.column, 2 * row) if whole else scope.column  # quotes in a row are doubled

    def _of_caseexpr(self, node: Any, scope: Scope) -> int:
        results = [self.expression(when.result, scope) for when in node.args]
        self._any((node.arg, *(when.expr for when in node.args)), scope)
        return max((*results, self.expression(node.defresult, scope)))

    def _of_coalesceexpr(self, node: Any, scope: Scope) -> int:
        return max(self.expression(each, scope) for each in node.args)

    _of_minmaxexpr = _of_coalesceexpr

    def _of_a_arrayexpr(self, node: Any, scope: Scope) -> int:
        return sum(self.expression(each, scope) + 8 for each in node.elements or ()) + SMALL

    def _of_rowexpr(self, node: Any, scope: Scope) -> int:
        return sum(2 * self.expression(each, scope) + 8 for each in node.args or ())

    def _of_a_indirection(self, node: Any, scope: Scope) -> int:
        self._any(node.indirection, scope)
        return self.expression(node.arg, scope)

    def _of_multiassignref(self, node: Any, scope: Scope) -> int:
        return self.expression(node.source, scope)

    def _of_selectstmt(self, node: Any, scope: Scope) -> int:
        return self.select(node, scope)

    def _of_a_expr(self, node: Any, scope: Scope) -> int:
        left, right = self.expression(node.lexpr, scope), self.expression(node.rexpr, scope)
        kind, name = node.kind.name, node.name[0].sval
        if name in COMPARING:
            _compared(name if "LIKE" not in kind else "LIKE", left, right)
            return SMALL
        if kind == "AEXPR_NULLIF":
            return left
        if kind != "AEXPR_OP":
            return SMALL
        if name == "||":
            return left + right
        if name in COSTLY or name in "+-":
            return max(left, right, NUMBER) if name == "-" else NUMBER
        return left if name.startswith(("-", "#")) else SMALL

    def _of_typecast(self, node: Any, scope: Scope) -> int:
        size = self.expression(node.arg, scope)
        name = node.typeName.names[-1].sval
        plain = _is_plain(node.arg)
        if node.typeName.arrayBounds:
            return size if plain or name not in ("numeric", "jsonb") else _expanded(size)
        if name in ("varchar", "bpchar") and node.typeName.typmods:
            return min(2 * size, 4 * int(node.typeName.typmods[0].val.ival))
        if name == "numeric":
            return max(size, NUMBER)
        if name == "jsonb" and not (plain or _is_json(node.arg)):
            return _expanded(size)
        # An array or a row as text has escapes.
        return max(size if plain or name not in _TEXTS else 2 * size, SMALL)

    def _of_sublink(self, node: Any, scope: Scope) -> int:
        self._any(node.testexpr, scope)
        size = self.select(node.subselect, scope._replace(nested=True))
        match node.subLinkType.name:
            case "ARRAY_SUBLINK":
                limit = _limit(node.subselect)
                if limit is None:
                    raise _collected("ARRAY(SELECT ...)", "ARRAY(SELECT name FROM items LIMIT 100)")
                return limit * (size + 8)
            case "EXPR_SUBLINK":
                return size
        return SMALL

    def _of_funccall(self, node: Any, scope: Scope) -> int:
        name: str = node.funcname[-1].sval
        arguments: Sequence[Any] = node.args or ()
        sizes = [self.expression(each, scope) for each in arguments]
        order = [self.expression(each.node, scope) for each in node.agg_order or ()]
        self._any((node.agg_filter, node.over), scope)
        growth = FUNCTIONS[name]
        if growth == "json" or (growth == "collect" and name.startswith("json")):
            sizes = [self._in_json(name, each, size) for each, size in zip(arguments, sizes, strict=True)]
        if growth == "collect":
            return self._collected(node, scope, sum(sizes))
        if growth == "several" and sizes and type(arguments[0]).__name__ != "A_Const":
            return sizes[0] * max(order, default=0)
        if growth == "largest" or not sizes:
            return max((*sizes, *order), default=0)
        return _RESULTS[growth](name, arguments, sizes)

    def _in_json(self, name: str, node: Any, size: int) -> int:
        """Return the bound of a value that becomes part of JSON."""
        if "jsonb" in name and self._casts_json and type(node).__name__ != "A_Const":
            return _expanded(size)
        return size if _is_json(node) else 2 * size

    @staticmethod
    def _collected(node: Any, scope: Scope, size: int) -> int:
        name = node.funcname[-1].sval
        # In a subquery of an expression its argument may belong to the query around it, which has other rows.
        if scope.rows is None or scope.nested or node.over is not None:
            call = f"{name}(name, ', ')" if name == "string_agg" else f"{name}(name)"
            few = "(SELECT name FROM items ORDER BY name LIMIT 100) AS few"
            raise _collected(name, f"SELECT {call} FROM {few}")  # noqa: S608 - an example in a message
        return scope.rows * (size + 16)

    def _with(self, node: Any, scope: Scope) -> Mapping[str, int]:
        clause = getattr(node, "withClause", None)
        if clause is None:
            return scope.ctes
        ctes = dict(scope.ctes)
        names = {cte.ctename for cte in clause.ctes} if clause.recursive else frozenset()
        for cte in clause.ctes:
            inner = scope._replace(ctes=MappingProxyType({**ctes, **dict.fromkeys(names - set(ctes), MOST_ROW_BYTES)}))
            if clause.recursive and _names_any(cte.ctequery, names):
                _check_recursion(cte.ctequery, {*names, *ctes})
                inner = inner._replace(ctes=MappingProxyType({**inner.ctes, **dict.fromkeys(names, _RECURSIVE)}))
                ctes[cte.ctename] = max(self.select(cte.ctequery, inner), _RECURSIVE)
            else:
                ctes[cte.ctename] = self.select(cte.ctequery, inner)
            self._note(cte.ctename, self._row(cte.ctequery, ctes[cte.ctename]))
        return MappingProxyType(ctes)

    def _from(self, items: Iterable[Any], scope: Scope) -> int:
        """Return the bound of the columns of what is in FROM."""
        column = 0
        for item in items:
            match type(item).__name__:
                case "RangeVar":
                    column = max(column, scope.ctes.get(item.relname, MOST_ROW_BYTES))
                    if item.alias and item.relname in scope.ctes:
                        self._note(item.alias.aliasname, self._rows.get(item.relname, MOST_VALUE))
                case "RangeSubselect":
                    inner = scope._replace(nested=scope.nested or bool(item.lateral), column=self._outer(scope, column))
                    found = self.select(item.subquery, inner)
                    column = max(column, found)
                    if item.alias:
                        self._note(item.alias.aliasname, self._row(item.subquery, found))
                case "RangeFunction":
                    inner = scope._replace(nested=True, column=self._outer(scope, column))
                    column = max((column, *(self.expression(each[0], inner) for each in item.functions)))
                case "JoinExpr":
                    column = max(
                        column, self._from((item.larg, item.rarg), scope._replace(column=max(scope.column, column)))
                    )
                    self._any(item.quals, scope._replace(column=max(scope.column, column), rows=None))
                    if item.alias:
                        self._note(item.alias.aliasname, self._row_of((item.larg, item.rarg)))
        return column

    def _note(self, name: str, row: int) -> None:
        self._rows[name] = max(row, self._rows.get(name, 0))

    def _row(self, node: Any, largest: int) -> int:
        """Return the bound of a whole row of a query. `largest`: of its columns."""
        if node.larg is not None:
            return max(self._row(node.larg, largest), self._row(node.rarg, largest))
        if node.valuesLists:
            return largest * len(node.valuesLists[0])
        values = [target.val for target in node.targetList or ()]
        stars = sum(map(_is_star, values))
        return largest * (len(values) - stars) + stars * (self._row_of(node.fromClause) if stars else 0)

    def _row_of(self, items: Any) -> int:
        """Return the bound of a whole row of all that is in FROM."""
        total = 0
        for each in nodes(items or ()):
            if type(each).__name__ in ("RangeVar", "RangeSubselect", "RangeFunction"):
                name = each.alias.aliasname if each.alias else getattr(each, "relname", "")
                total += self._rows.get(name, MOST_ROW_BYTES)
        return total

    @staticmethod
    def _outer(scope: Scope, column: int) -> int:
        return max(scope.column, column)

    def _rest(self, node: Any, scope: Scope) -> None:
        names = (
            "distinctClause",
            "whereClause",
            "groupClause",
            "havingClause",
            "windowClause",
            "sortClause",
            "limitOffset",
            "limitCount",
        )
        for name in names:
            self._any(getattr(node, name), scope)

    def _any(self, node: Any, scope: Scope) -> None:
        """Check all expressions in a node or list."""
        if isinstance(node, tuple):
            for each in node:
                self._any(each, scope)
        elif type(node).__module__ == "pglast.ast":
            self.expression(node, scope)

    def _children(self, node: Any, scope: Scope) -> None:
        for _, child in fields(node):
            self._any(child, scope)


def fields(node: Any) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a node, and their values."""
    for name in type(node).__slots__:
        yield name, getattr(node, name)


def nodes(node: Any) -> Iterator[Any]:
    """Yield all nodes below a node or list, and itself."""
    if isinstance(node, tuple):
        for each in node:
            yield from nodes(each)
    elif type(node).__module__ == "pglast.ast":
        yield node
        for _, child in fields(node):
            yield from nodes(child)


def _expanded(size: int) -> int:
    if size * _EXPANSION > MOST_VALUE:
        raise StatementError(
            "a text that is cast to jsonb or numeric[] could get very long",
            hint="write ::json instead of ::jsonb, or no cast if the column is JSONB, or shorten it:"
            " left(column, 500)::jsonb",
        )
    return size * _EXPANSION


def _is_plain(node: Any) -> bool:
    """True for literals and parameters, whose numbers are known before the statement runs."""
    return type(node).__name__ in ("A_Const", "ParamRef")


def _is_json_text(node: Any) -> bool:
    return type(node).__name__ == "TypeCast" and node.typeName.names[-1].sval == "json" and not _is_plain(node.arg)


def _is_json(node: Any) -> bool:
    """True if the value of a node is certainly JSON, which is not escaped when it becomes part of other JSON."""
    if type(node).__name__ == "A_Expr":
        return node.name[0].sval in ("->", "#>")
    return type(node).__name__ == "FuncCall" and node.funcname[-1].sval.startswith(
        ("jsonb_build", "jsonb_agg", "to_jsonb")
    )


def _is_star(node: Any) -> bool:
    return type(node).__name__ == "ColumnRef" and type(node.fields[-1]).__name__ == "A_Star"


def _constant(value: Any) -> int:
    match type(value).__name__:
        case "String":
            return expanded_bytes(value.sval)
        case "Float":
            return len(value.fval)
    return SMALL


def _sum(name: str, _arguments: Sequence[Any], sizes: Sequence[int]) -> int:
    glue = sizes[0] * len(sizes) if name == "concat_ws" and sizes else 0
    texts = 2 if name.startswith("concat") else 1  # arrays have escapes
    return texts * sum(sizes) + 16 * len(sizes) + glue


def _cut(name: str, arguments: Sequence[Any], sizes: Sequence[int]) -> int:
    length = _integer(arguments[-1]) if len(arguments) == (2 if name == "left" else 3) else None
    return sizes[0] if length is None or length < 0 else min(sizes[0], 4 * length)


def _replaced(name: str, arguments: Sequence[Any], sizes: Sequence[int]) -> int:
    if len(sizes) != 3:
        return MOST_ROW_BYTES
    _compared(name, *sizes[:2])
    return sizes[0] * max(1, _literal(name, arguments, 2))


def _found(name: str, _arguments: Sequence[Any], sizes: Sequence[int]) -> int:
    if len(sizes) > 1:
        _compared(name, *sizes[:2])
    return sizes[0]


_Rule = Callable[[str, Sequence[Any], Sequence[int]], int]

_RESULTS: Final[Mapping[Growth, _Rule]] = MappingProxyType(
    {
        "small": lambda _name, _arguments, _sizes: SMALL,
        "float": lambda _name, _arguments, _sizes: SMALL,
        "series": lambda _name, _arguments, _sizes: SMALL,
        "pattern": lambda _name, _arguments, _sizes: 20 * SMALL,
        "number": lambda _name, _arguments, _sizes: NUMBER,
        "translate": lambda _name, _arguments, sizes: sizes[0],
        "sum": _sum,
        "json": _sum,
        "several": lambda _name, _arguments, sizes: max(sizes),
        "double": lambda _name, _arguments, sizes: 2 * max(sizes, default=0),
        "cut": _cut,
        "pad": lambda name, arguments, _sizes: 4 * _counted(name, arguments, 1),
        "repeat": lambda name, arguments, sizes: sizes[0] * _counted(name, arguments, 1),
        "replace": _replaced,
        "find": _found,
        "join": lambda name, arguments, sizes: sizes[0] * (1 + _literal(name, arguments, 1) + sum(sizes[2:])),
        "split": lambda _name, _arguments, sizes: 16 * max(sizes),
    }
)


def _integer(node: Any) -> int | None:
    if node is not None and type(node).__name__ == "A_Const" and type(node.val).__name__ == "Integer":
        return int(node.val.ival)
    return None


def _limit(node: Any) -> int | None:
    limit = _integer(node.limitCount)
    return limit if limit is not None and 0 <= limit <= MOST_LIMIT else None


def _rows_of(node: Any) -> int | None:
    """Return the maximum rows of what is in FROM; None if there is no bound."""
    items = node.fromClause or ()
    if not items:
        return 1
    if len(items) != 1 or type(items[0]).__name__ != "RangeSubselect":
        return None
    inner = items[0].subquery
    return len(inner.valuesLists) if inner.valuesLists else _limit(inner)


def _counted(name: str, arguments: Sequence[Any], at: int) -> int:
    count = _integer(arguments[at]) if len(arguments) > at else None
    if count is None or count > MOST_COUNT:
        raise StatementError(f"{name} needs a number up to {MOST_COUNT:,} as argument {at + 1}, not an expression")
    return max(0, count)


def _literal(name: str, arguments: Sequence[Any], at: int) -> int:
    node = arguments[at] if len(arguments) > at else None
    if node is None or type(node).__name__ != "A_Const":
        raise StatementError(f"{name} needs a text in quotes as argument {at + 1}, not an expression")
    return _constant(node.val)


def _compared(what: str, text: int, part: int) -> None:
    if text * part > MOST_COMPARED:
        raise StatementError(
            f"{what} could take too long: both sides may be long",
            hint="shorten the one that is looked for, such as left(column, 1000), or use a shorter parameter",
        )


def _collected(name: str, example: str) -> StatementError:
    return StatementError(f"{name} collects values without a bound", hint=f"collect from a LIMIT: {example}")


def _width(node: Any, largest: int) -> int:
    """Return the bound of a row: columns of stored rows are together no longer than these, if each is named once."""
    while node.larg is not None:
        node = node.larg
    relations = [each for each in nodes(node.fromClause or ()) if type(each).__name__ in ("RangeVar", "JoinExpr")]
    names: set[str] = set()
    width = MOST_ROW_BYTES * max(1, sum(type(each).__name__ == "RangeVar" for each in relations))
    stored = largest <= MOST_ROW_BYTES
    for target in node.targetList or (node.valuesLists[0] if node.valuesLists else ()):
        value = target.val if type(target).__name__ == "ResTarget" else target
        kind = type(value).__name__
        text = repr(value.fields) if kind == "ColumnRef" else ""
        if kind == "ColumnRef" and stored and text not in names:
            names.add(text)
        elif kind not in ("A_Const", "SQLValueFunction"):
            width += largest
    return width


def _names_any(node: Any, names: Iterable[str]) -> bool:
    wanted = set(names)
    return any(type(each).__name__ == "RangeVar" and each.relname in wanted for each in nodes(node))


def _check_recursion(query: Any, ctes: set[str]) -> None:
    """Refuse a recursive query in which a value may double in each round."""
    if not query.all and any(type(each).__name__ == "RangeSubselect" or _makes_text(each) for each in nodes(query)):
        # All rows that differ are kept in memory.
        raise StatementError(
            "a recursive query with UNION may not make texts", hint="write UNION ALL, or select only columns"
        )
    stored = _stored_names(query, ctes)
    for node in nodes(query):
        if _grows(node) and _values_in(node, stored) > 1:
            raise StatementError(
                "a value may grow without a bound in a recursive query",
                hint="add only one value of the recursion: tree.path || '/' || items.name, with the names of the"
                " tables before those of the columns",
            )


def _grows(node: Any) -> bool:
    match type(node).__name__:
        case "A_Expr":
            return bool(node.name[0].sval == "||")
        case "FuncCall":
            return FUNCTIONS[node.funcname[-1].sval] in ("sum", "pad") or _multiplies(node)
        case kind:
            return kind in ("A_ArrayExpr", "RowExpr")


def _makes_text(node: Any) -> bool:
    if type(node).__name__ == "FuncCall":
        return FUNCTIONS[node.funcname[-1].sval] not in ("small", "number", "float", "series")
    return _grows(node)


def _stored_names(query: Any, ctes: set[str]) -> set[str]:
    """Return the names by which a query calls tables, and nothing else."""
    stored: set[str] = set()
    others = set(ctes)
    for each in nodes(query):
        kind = type(each).__name__
        if kind == "RangeVar":
            name = each.alias.aliasname if each.alias else each.relname
            (others if each.relname in ctes else stored).add(name)
        elif kind in ("RangeSubselect", "RangeFunction", "JoinExpr") and each.alias:
            others.add(each.alias.aliasname)
    return stored - others


def _values_in(node: Any, stored: set[str]) -> int:
    """Count the values in an expression that may come from the recursion."""
    count = 0
    for each in nodes(node):
        kind = type(each).__name__
        if kind == "ColumnRef":
            qualified = len(each.fields) == 2 and each.fields[0].sval in stored
            count += not qualified
        elif kind in ("SubLink", "SelectStmt") or _multiplies(each):
            count += 2
    return count


def _multiplies(node: Any) -> bool:
    growing = ("replace", "repeat", "join", "double", "split")
    return type(node).__name__ == "FuncCall" and FUNCTIONS[node.funcname[-1].sval] in growing
