"""Judges a statement by its parse tree, before PostgreSQL sees it.

Every node, field, function, operator and type must be on a list (`allowlist`). Names have no schema, so they are
found in the user's schema alone: nothing in `pg_catalog` has a name that is allowed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

from pglast import parse_sql
from pglast.parser import ParseError

from runtime.suggestions import unknown_name
from runtime.tables.errors import StatementError
from runtime.tables.postgres import aggregates
from runtime.tables.postgres.allowlist import (
    ACCESS_METHODS,
    CHOICES,
    COSTLY,
    FIELDS,
    FUNCTIONS,
    IN_FROM,
    INSTEAD,
    OF_ROWS,
    OPERATORS,
    OTHER_TYPES,
    PLACES,
    STORED,
    SYSTEM_COLUMNS,
    TYPES,
)
from runtime.tables.postgres.tokens import COMMENTS, QUOTING_HINT, Token, syntax_hint, tokens_of, with_identity
from runtime.tables.postgres.value_bounds import MOST_COUNT, ValueBounds, fields, nodes
from runtime.tables.statement import quoted

Kind = Literal["read", "insert", "update", "delete", "define", "drop"]

_KINDS: Final[dict[str, Kind]] = {
    "SelectStmt": "read",
    "InsertStmt": "insert",
    "UpdateStmt": "update",
    "DeleteStmt": "delete",
    "CreateStmt": "define",
    "IndexStmt": "define",
    "AlterTableStmt": "define",
    "RenameStmt": "define",
    "DropStmt": "drop",
}
_ALLOWED: Final = (
    "SELECT, INSERT, UPDATE, DELETE, CREATE TABLE, CREATE INDEX, ALTER TABLE, DROP TABLE and DROP INDEX are possible"
)
_MOST_DEPTH: Final = 100
"""Maximum depth of a tree, in nodes and lists."""
_MOST_RELATIONS: Final = 20
_MOST_QUERIES: Final = 30
_MOST_COSTLY: Final = 32
"""Maximum number of multiplications and divisions of two values that may be long: with NUMERIC of the greatest length
each takes a fraction of a second, during which nothing can be cancelled."""
_REMAINDER: Final = 16
"""As many of these as one remainder takes, which is computed to the last digit."""
_MOST_STORED: Final = 4
"""The same for expressions that run with each later change: checks, defaults, generated columns, indexes."""
_MOST_PREDICATE: Final = 60
"""Maximum nodes of the condition of an index: each query compares all parts of its own with each of them."""
_MOST_DIGITS: Final = 400
_FEW: Final = 50
_SCHEMAS: Final = frozenset({"pg_catalog", "information_schema", "public", "pg_toast"})
_RETURNING: Final = "pg_catalog.octet_length(({}.*)::text)"


class StatementPlan(NamedTuple):
    """A statement that may run. `sql`: for PostgreSQL; `table`: that is changed; `counted`: the last column of its
    result is the size of each changed row; `few`: it returns at most 50 rows; `rewrites`: it may make the rows of
    `table` longer, which no result tells."""

    sql: str
    kind: Kind
    table: str | None
    counted: bool
    few: bool
    rewrites: bool = False


def check(statement: str, parameters: int, parameter_bytes: int) -> StatementPlan:
    """Check a statement whose parameters are numbered from 1 to `parameters` and take up to `parameter_bytes` each.

    Raises StatementError.
    """
    statement = with_identity(statement, tokens_of(statement))
    tokens = [each for each in tokens_of(statement) if each.name not in COMMENTS]
    _check_tokens(tokens)
    root = _parse(statement, tokens)
    kind = _KINDS.get(type(root).__name__)
    if kind is None:
        raise StatementError(f"{_sql_name(root)} is not possible", hint=_ALLOWED)
    stored = kind in ("define", "drop")
    _Check(parameters, stored=stored).tree(root)
    if stored and parameters:
        raise StatementError("this statement has no parameters", hint="write the values as literals")
    ValueBounds(parameter_bytes).check(root)
    relation: Any = getattr(root, "relation", None)
    sql = _renamed_types(statement, root).rstrip()
    if any(map(_collects, nodes(root))):
        sql = aggregates.add_limits(sql, list(filter(_collects, nodes(parse_sql(sql)[0].stmt))))
    counted = kind in ("insert", "update")
    if counted:
        alias = relation.alias.aliasname if relation.alias else relation.relname
        size = _RETURNING.format(quoted(alias))
        end = _end(tokens_of(sql))
        sql = f"{sql[:end]}{', ' if root.returningClause else ' RETURNING '}{size}"
    table = relation.relname if relation is not None else None
    return StatementPlan(sql, kind, table, counted, _has_few_rows(root), _rewrites(root))


def _rewrites(root: Any) -> bool:
    """True for ALTER TABLE that computes a value for each row: a default, a generated column, or USING."""
    if type(root).__name__ != "AlterTableStmt":
        return False
    for node in nodes(root):
        if type(node).__name__ == "Constraint" and node.contype.name != "CONSTR_CHECK":
            value = node.raw_expr
        else:
            value = node.raw_default if type(node).__name__ == "ColumnDef" else None
        if value is not None and type(value).__name__ not in ("A_Const", "SQLValueFunction"):
            return True
    return False


def _has_few_rows(root: Any) -> bool:
    query = root.selectStmt if type(root).__name__ == "InsertStmt" else root
    if type(query).__name__ != "SelectStmt" or query.larg is not None:
        return False
    if query.valuesLists:
        return len(query.valuesLists) <= _FEW
    limit = query.limitCount
    number = limit.val if type(limit).__name__ == "A_Const" else None
    return number is not None and type(number).__name__ == "Integer" and int(number.ival) <= _FEW


def _collects(node: Any) -> bool:
    return type(node).__name__ == "FuncCall" and FUNCTIONS[_name_of(node)] == "collect"


def _parse(statement: str, tokens: Sequence[Token]) -> Any:
    try:
        parsed = parse_sql(statement)
    except ParseError as error:
        message = str(error.args[0]) if error.args else "syntax error"
        raise StatementError(f"the statement is wrong: {message}", hint=syntax_hint(tokens) or QUOTING_HINT) from None
    if not parsed:
        raise StatementError("the statement is empty", hint=_ALLOWED)
    if len(parsed) > 1:
        raise StatementError("one call runs one statement", hint="call again for each further statement")
    return parsed[0].stmt


def _check_tokens(tokens: Sequence[Token]) -> None:
    for index, token in enumerate(tokens):
        if token.name in ("BCONST", "XCONST"):
            raise StatementError("bit strings are not possible")
        if token.name in ("USCONST", "UIDENT"):
            raise StatementError("U&'...' is not possible", hint="write the characters themselves")
        if token.name in ("ICONST", "FCONST") and any(letter in "xXoObB_" for letter in token.text):
            raise StatementError(f"{token.text[:20]} is not a decimal number")
        follows = tokens[index + 1].name if index + 1 < len(tokens) else ""
        if follows == "ASCII_46" and token.text.strip('"').lower() in _SCHEMAS:
            raise _schema_error()


def _end(tokens: Sequence[Token]) -> int:
    """Return where the statement ends, without comments and semicolons."""
    return max(token.end for token in tokens if token.name not in COMMENTS and token.text != ";")


class _Check:
    """Checks every node of a tree. `stored`: its expressions become part of a table."""

    def __init__(self, parameters: int, *, stored: bool) -> None:
        self._parameters = parameters
        self._stored = stored
        self._relations = self._queries = self._costly = 0

    def tree(self, root: Any) -> None:
        self._visit(root, 0)
        if self._relations > _MOST_RELATIONS or self._queries > _MOST_QUERIES:
            raise StatementError("the statement combines too many tables or queries", hint="divide it")
        if self._costly > (_MOST_STORED if self._stored else _MOST_COSTLY):
            hint = "cast one side of each, such as value::bigint or value::float8, or divide the statement"
            raise StatementError("the statement has too many multiplications and divisions", hint=hint)

    def _visit(self, node: Any, depth: int) -> None:
        if depth > _MOST_DEPTH:
            raise StatementError("the statement is nested too deeply", hint="divide it")
        if isinstance(node, tuple):
            for each in node:
                self._visit(each, depth + 1)
            return
        kind = type(node).__name__
        if type(node).__module__ != "pglast.ast":
            return
        allowed = FIELDS.get(kind)
        if allowed is None or (depth and kind in _KINDS and kind != "SelectStmt"):
            raise _refusal(node)
        for name, value in fields(node):
            self._field(node, kind, name, value, allowed)
        special = getattr(self, f"_check_{kind.lower()}", None)
        if special is not None:
            special(node)
        for _, value in fields(node):
            if isinstance(value, tuple) or type(value).__module__ == "pglast.ast":
                self._visit(value, depth + 1)

    @staticmethod
    def _field(node: Any, kind: str, name: str, value: Any, allowed: frozenset[str]) -> None:
        choices = CHOICES.get((kind, name))
        if choices is not None:
            if value is not None and value.name not in choices:
                raise _refusal(node, value.name)
        elif name not in allowed and name not in PLACES and not _is_empty(value):
            raise _refusal(node, name)

    def _check_rangevar(self, node: Any) -> None:
        self._relations += 1
        if node.relpersistence != "p":
            raise StatementError("temporary and unlogged tables are not possible", hint="CREATE TABLE without it")
        _check_name(node.relname)

    def _check_selectstmt(self, node: Any) -> None:
        self._queries += 1

    def _check_rangefunction(self, node: Any) -> None:
        for function, *columns in node.functions:
            name = _name_of(function)
            if any(columns) or name not in IN_FROM:
                raise StatementError(
                    f"{name or 'this'} cannot be in FROM", hint=f"these can: {', '.join(sorted(IN_FROM))}"
                )

    def _check_columnref(self, node: Any) -> None:
        if len(node.fields) > 2:
            raise _schema_error()
        for field in node.fields:
            if type(field).__name__ == "String":
                _check_name(field.sval)
        name = getattr(node.fields[-1], "sval", "")
        if len(node.fields) == 2 and name in OF_ROWS:
            raise StatementError(
                f"the column name {name} is that of a function", hint=f"leave out the table, or name it: {name} AS x"
            )

    def _check_paramref(self, node: Any) -> None:
        if not 1 <= node.number <= self._parameters:
            raise StatementError(f"there is no parameter ${node.number}")

    def _check_a_const(self, node: Any) -> None:
        if type(node.val).__name__ == "Float":
            digits, _, exponent = node.val.fval.lower().partition("e")
            if len(digits) > _MOST_DIGITS or len(exponent) > 4 or abs(int(exponent or 0)) > _MOST_DIGITS:
                raise StatementError(f"a number has at most {_MOST_DIGITS} digits")

    def _check_a_expr(self, node: Any) -> None:
        if "BETWEEN" in node.kind.name:  # the name is that of the form
            return
        self._operator(node.name)
        name = node.name[0].sval
        if name in COSTLY and not _is_small(node.rexpr) and not (name == "*" and _is_small(node.lexpr)):
            self._costly += self._weight(name)

    def _weight(self, name: str) -> int:
        return 1 if name in ("*", "/") else _MOST_STORED if self._stored else _REMAINDER

    def _check_sublink(self, node: Any) -> None:
        if node.operName:
            self._operator(node.operName)
            if node.operName[0].sval not in ("=", "<>", "!=", "<", ">", "<=", ">="):
                raise StatementError(f"{node.operName[0].sval} cannot be used with ANY or ALL of a query")

    def _operator(self, names: Sequence[Any]) -> None:
        if len(names) != 1:
            raise _schema_error()
        name = names[0].sval
        if name not in OPERATORS:
            hint = (
                "use LIKE, ILIKE or ->> instead" if name[:1] in "~!@" else f"these are: {' '.join(sorted(OPERATORS))}"
            )
            raise StatementError(f"the operator {name} is not possible", hint=hint)

    def _check_sortby(self, node: Any) -> None:
        if node.useOp:
            raise _schema_error()

    def _check_a_indirection(self, node: Any) -> None:
        if any(type(each).__name__ != "A_Indices" for each in node.indirection):
            raise StatementError("(expression).name is not possible", hint="name the column with its table: t.name")

    def _check_funccall(self, node: Any) -> None:
        # Only the grammar writes these with a schema: EXTRACT(... FROM ...), LIKE ... ESCAPE.
        syntax = node.funcformat.name == "COERCE_SQL_SYNTAX" or node.funcname[-1].sval == "like_escape"
        if len(node.funcname) != (2 if syntax else 1):
            raise _schema_error()
        name = node.funcname[-1].sval
        if name not in FUNCTIONS or (self._stored and name not in STORED):
            raise _no_function(name, stored=name in FUNCTIONS)
        if name in ("mod", "div") and not _is_small((node.args or (None,))[-1]):
            self._costly += self._weight(name)
        _check_arguments(name, node)

    def _check_typename(self, node: Any) -> None:
        name = node.names[-1].sval
        schema = [each.sval for each in node.names[:-1]]
        if schema not in ([], ["pg_catalog"]):
            raise _schema_error()
        name = OTHER_TYPES.get(name, name)
        if name not in TYPES:
            raise _unknown_type(name)
        if TYPES[name].endswith("serial") and not self._stored:  # elsewhere it is a table that is called so
            raise StatementError(f"{name} is possible for columns only", hint="cast to bigint")
        if len(node.arrayBounds or ()) > 1:
            raise StatementError("arrays have one dimension here", hint="use jsonb for nested lists")
        for modifier in node.typmods or ():
            if type(getattr(modifier, "val", None)).__name__ != "Integer":
                raise StatementError(f"the type {name} has numbers in brackets")
            most = 1000 if name == "bpchar" else MOST_COUNT if name == "varchar" else 32_767
            if modifier.val.ival > most:
                raise StatementError(f"{name}({modifier.val.ival}) is too long", hint=f"at most {most:,}, or text")

    def _check_restarget(self, node: Any) -> None:
        if node.name:
            _check_name(node.name)

    def _check_columndef(self, node: Any) -> None:
        if node.colname:  # none in ALTER COLUMN ... TYPE
            _check_name(node.colname)

    def _check_commontableexpr(self, node: Any) -> None:
        if type(node.ctequery).__name__ != "SelectStmt":
            raise StatementError("WITH contains only queries", hint="run the change as a statement of its own")
        _check_name(node.ctename)

    def _check_alias(self, node: Any) -> None:
        _check_name(node.aliasname)

    def _check_indexstmt(self, node: Any) -> None:
        if node.idxname:
            _check_name(node.idxname)
        if (node.accessMethod or "btree") not in ACCESS_METHODS:
            raise StatementError(f"no index of kind {node.accessMethod}", hint="leave out USING")
        if sum(1 for _ in nodes(node.whereClause)) > _MOST_PREDICATE:
            raise StatementError("the condition of the index is too long", hint="index all rows, or shorten it")

    def _check_altertablestmt(self, node: Any) -> None:
        if len(node.cmds) > _MOST_RELATIONS:
            raise StatementError("ALTER TABLE changes too much at once", hint="divide it")

    def _check_renamestmt(self, node: Any) -> None:
        _check_name(node.newname)

    def _check_dropstmt(self, node: Any) -> None:
        for names in node.objects:
            if len(names) != 1:
                raise _schema_error()
            _check_name(names[0].sval)


def _is_empty(value: Any) -> bool:
    if hasattr(value, "name") and hasattr(value, "value"):  # a choice whose first is the default
        return int(value.value) == 0
    return value is None or value is False or value in (0, "", "\0", ())


def _check_name(name: str) -> None:
    lowered = name.lower()
    if lowered in SYSTEM_COLUMNS or lowered.startswith("pg_"):
        raise StatementError(f"the name {name[:63]!r} is reserved", hint="use a column of your own")


def _name_of(node: Any) -> str:
    return str(node.funcname[-1].sval) if type(node).__name__ == "FuncCall" else ""


def _is_small(node: Any) -> bool:
    """True for a number of few digits, with which a calculation takes no time."""
    if type(node).__name__ == "FuncCall":
        return FUNCTIONS.get(_name_of(node)) == "small"
    if type(node).__name__ == "A_Const":
        return type(node.val).__name__ in ("Integer", "Float")
    return _is_float(node)


def _is_float(node: Any) -> bool:
    if type(node).__name__ == "TypeCast" and not node.typeName.arrayBounds:
        return node.typeName.names[-1].sval in ("float4", "float8", "int2", "int4", "int8", "double")
    return type(node).__name__ == "A_Const" and type(node.val).__name__ == "Integer"


def _is_count(node: Any) -> bool:
    """True if the node is a whole number: substring with a text is a regular expression."""
    kind = type(node).__name__
    if kind == "TypeCast":
        return node.typeName.names[-1].sval in ("int2", "int4", "int8") and not node.typeName.arrayBounds
    if kind == "FuncCall":
        return _name_of(node) in ("position", "strpos", "length", "char_length")
    if kind == "A_Expr":
        return node.kind.name == "AEXPR_OP" and node.name[0].sval in ("+", "-", "*")
    return kind == "A_Const" and type(node.val).__name__ == "Integer"


def _is_short_text(arguments: Sequence[Any]) -> bool:
    return bool(arguments) and all(
        type(each).__name__ == "A_Const" and type(each.val).__name__ == "String" and len(each.val.sval) <= 100
        for each in arguments
    )


def _check_arguments(name: str, node: Any) -> None:
    arguments: Sequence[Any] = node.args or ()
    growth = FUNCTIONS[name]
    if growth == "float" and not all(map(_is_float, (*arguments, *(each.node for each in node.agg_order or ())))):
        raise StatementError(f"{name} is possible for double precision", hint=f"write {name}(value::float8)")
    if name == "substring" and len(arguments) > 1 and not _is_count(arguments[1]):
        raise StatementError("substring with a pattern is not possible", hint="use substr(text, start, length)")
    if growth == "series":
        _check_series(arguments)
    if growth == "pattern" and not _is_short_text(arguments[1:]):
        raise StatementError(f"{name} needs a short text in quotes as format", hint=f"{name}(day, 'YYYY-MM-DD')")
    if name == "percentile_disc" and not all(type(each).__name__ == "A_Const" for each in arguments):
        raise StatementError("percentile_disc needs a number, not an expression")
    if growth == "collect" and node.over is not None:
        raise StatementError(f"{name} OVER is not possible", hint=f"{name}(...) with GROUP BY")
    if growth == "collect" and any(
        type(each).__name__ == "SelectStmt" for each in nodes((arguments, node.agg_filter, node.agg_order))
    ):
        raise StatementError(f"{name} cannot collect from a query in its arguments", hint="write the query into FROM")
    if growth == "translate" and not _is_short_text(arguments[1:2]):
        raise StatementError("translate needs short texts in quotes", hint="translate(name, 'abc', 'xyz')")


def _check_series(arguments: Sequence[Any]) -> None:
    numbers = [
        each.val.ival for each in arguments if type(each).__name__ == "A_Const" and type(each.val).__name__ == "Integer"
    ]
    if len(numbers) != len(arguments) or len(numbers) not in (2, 3):
        raise StatementError(
            "generate_series is possible for whole numbers as literals",
            hint="for days: '2026-01-01'::date + n FROM generate_series(0, 30) AS days(n)",
        )
    step = numbers[2] if len(numbers) == 3 else 1
    if step and abs(numbers[1] - numbers[0]) // abs(step) >= MOST_COUNT:
        raise StatementError(f"generate_series makes at most {MOST_COUNT:,} rows")


def _renamed_types(statement: str, root: Any) -> str:
    """Replace names of types that only other databases have."""
    edits = [
        (node.location, node.names[-1].sval)
        for node in nodes(root)
        if type(node).__name__ == "TypeName" and node.names[-1].sval in OTHER_TYPES
    ]
    starts = {token.start: token for token in tokens_of(statement)} if edits else {}
    for location, name in sorted(edits, reverse=True):
        token = starts.get(location)
        if token is None:
            raise _unknown_type(name)
        statement = f"{statement[: token.start]}{OTHER_TYPES[name]}{statement[token.end :]}"
    return statement


def _sql_name(node: Any) -> str:
    """Return the statement that a node is, in the words of SQL."""
    words: list[str] = []
    for letter in type(node).__name__.removesuffix("Stmt"):
        if letter.isupper():
            words.append("")
        words[-1] += letter.upper()
    return " ".join(words) or "this statement"


def _refusal(node: Any, what: str = "") -> StatementError:
    kind = type(node).__name__
    known = {
        ("SelectStmt", "intoClause"): "SELECT INTO is not possible",
        ("SelectStmt", "lockingClause"): "FOR UPDATE is not possible; each statement is a transaction of its own",
        ("RangeVar", "schemaname"): "names with a schema are not possible",
        ("RangeVar", "catalogname"): "names with a schema are not possible",
        ("CollateClause", ""): "COLLATE is not possible",
        ("ColumnDef", "collClause"): "COLLATE is not possible",
        ("IndexElem", "collation"): "COLLATE is not possible",
        ("A_Expr", "AEXPR_SIMILAR"): "SIMILAR TO is not possible; use LIKE or ILIKE",
    }
    message = known.get((kind, what)) or f"{_sql_name(node)}{' ' + what if what else ''} is not possible in a statement"
    return StatementError(message, hint=_ALLOWED if kind.endswith("Stmt") else "write it in simpler SQL")


def _schema_error() -> StatementError:
    return StatementError(
        "names with a schema are not possible", hint="write only the name: there are no tables but your own"
    )


def _no_function(name: str, *, stored: bool) -> StatementError:
    if stored:
        return StatementError(f"{name} is not possible in a definition", hint="use it in INSERT, UPDATE or SELECT")
    if name.lower() in INSTEAD:
        return StatementError(f"there is no function {name}", hint=f"write {INSTEAD[name.lower()]}")
    error = unknown_name("function", name[:63], FUNCTIONS, StatementError)
    assert isinstance(error, StatementError)
    return error


def _unknown_type(name: str) -> StatementError:
    error = unknown_name("type", name[:63], TYPES, StatementError)
    assert isinstance(error, StatementError)
    return error
