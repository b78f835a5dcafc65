"""The functions, operators, types and names that statements may use, and the nodes of parse trees that they consist of.

What reads or changes anything but the user's tables is on no list (settings, other sessions, files, catalogs, large
objects, locks, XML), nor what may run for long without answering a cancel (regular expressions, `format`, `power`,
geometric types, bit strings, JSON paths).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

Growth = Literal[
    "small",  # a date, a number, a truth value
    "number",
    "largest",  # no longer than its longest argument
    "sum",  # no longer than its arguments together
    "double",  # twice as long at most
    "json",  # the sum, with escapes
    "separate",  # the first argument between all others
    "cut",  # an argument is a length
    "pad",
    "replace",
    "find",  # compares all of one argument with all of another
    "join",
    "split",
    "translate",
    "pattern",  # the second argument is a short literal
    "float",  # only of double precision: of a long NUMERIC it takes very long
    "collect",  # an aggregate that keeps every value
    "series",
]
"""Bounds of the length of a function's result; see `value_bounds`."""


def _names(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


def _rows(growth: Growth, names: str) -> dict[str, Growth]:
    return dict.fromkeys(names.split(), growth)


FUNCTIONS: Final[Mapping[str, Growth]] = MappingProxyType(
    {
        **_rows(
            "number",
            "sum avg abs ceil ceiling floor round trunc sign mod div sin cos tan asin acos atan atan2 pi degrees"
            " radians percentile_cont corr scale min_scale trim_scale",
        ),
        **_rows(
            "small",
            "count bool_and bool_or every row_number rank dense_rank percent_rank cume_dist ntile length char_length"
            " character_length octet_length ascii chr md5 sha256 random gen_random_uuid starts_with"
            " now clock_timestamp statement_timestamp transaction_timestamp date_trunc date_part extract age to_date"
            " to_timestamp make_date make_time make_timestamp make_timestamptz make_interval justify_days"
            " justify_hours justify_interval timezone isfinite overlaps date"
            " array_length array_upper array_lower cardinality array_position jsonb_array_length jsonb_typeof bit_and"
            " bit_or date_bin num_nonnulls num_nulls to_hex",
        ),
        **_rows(
            "largest",
            "min max lower upper initcap trim btrim ltrim rtrim right reverse lag lead first_value last_value nth_value"
            " mode any_value array_remove unnest jsonb_array_elements jsonb_array_elements_text jsonb_each"
            " jsonb_each_text jsonb_object_keys jsonb_extract_path jsonb_extract_path_text jsonb_strip_nulls"
            " percentile_disc",
        ),
        **_rows(
            "sum",
            "array_append array_prepend array_cat jsonb_insert jsonb_set overlay",
        ),
        **_rows(
            "json",
            "concat jsonb_build_object jsonb_build_array json_build_object json_build_array to_json to_jsonb",
        ),
        **_rows("double", "encode decode like_escape"),
        **_rows("separate", "concat_ws"),
        **_rows("cut", "left substr substring"),
        **_rows("pad", "lpad rpad repeat"),
        **_rows("replace", "replace"),
        **_rows("find", "position strpos split_part"),
        **_rows("join", "array_to_string"),
        **_rows("split", "string_to_array"),
        **_rows("translate", "translate"),
        **_rows("pattern", "to_char"),
        **_rows(
            "float",
            "sqrt cbrt exp ln log log10 power pow stddev stddev_samp stddev_pop variance var_samp var_pop width_bucket"
            " covar_pop covar_samp regr_intercept regr_r2 regr_slope",
        ),
        **_rows("collect", "string_agg array_agg json_agg jsonb_agg json_object_agg jsonb_object_agg"),
        **_rows("series", "generate_series"),
    }
)

_NEVER_STORED: Final = frozenset({"collect", "series", "sum", "json", "separate", "pad", "replace", "join"})

STORED: Final = frozenset(name for name, growth in FUNCTIONS.items() if growth not in _NEVER_STORED)
"""Functions that may also be in defaults, checks, generated columns and indexes, which run with each later change."""

IN_FROM: Final = _names(
    "generate_series unnest jsonb_array_elements jsonb_array_elements_text jsonb_each jsonb_each_text jsonb_object_keys"
)
"""Functions that may be in FROM."""

OPERATORS: Final = _names("+ - * / % = <> != < > <= >= || ~~ !~~ ~~* !~~* -> ->> #> #>> @> <@ && & | << >>")
ORDERING: Final = _names("= <> != < > <= >=")
COSTLY: Final = _names("* / %")
"""Operators whose time grows with the square of the digits of a NUMERIC."""
COMPARING: Final = _names("~~ !~~ ~~* !~~* @> <@ &&")
"""Operators that compare all of one side with all of the other."""

TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{name: name for name in ("bool", "int2", "int4", "int8", "float4", "float8", "numeric", "text", "varchar")},
        **{name: name for name in ("bpchar", "date", "time", "timetz", "timestamp", "timestamptz", "interval", "uuid")},
        **{name: name for name in ("json", "jsonb", "bytea", "smallserial", "serial", "bigserial")},
        "serial2": "smallserial",
        "serial4": "serial",
        "serial8": "bigserial",
    }
)

OTHER_TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("datetime", "smalldatetime"), "timestamp"),
        **dict.fromkeys(("blob", "tinyblob", "mediumblob", "longblob", "binary", "varbinary"), "bytea"),
        **dict.fromkeys(("string", "clob", "tinytext", "mediumtext", "longtext"), "text"),
        **dict.fromkeys(("nvarchar", "varchar2"), "varchar"),
        "double": "float8",
        "tinyint": "int2",
        "mediumint": "int4",
        "number": "numeric",
        "json": "jsonb",  # as text it keeps the numbers as they are written
    }
)
"""Types of other databases, and those that are used instead."""

RESULTS: Final = frozenset(TYPES) | {f"{name}[]" for name in TYPES}
"""Types that a result may contain."""

SYSTEM_COLUMNS: Final = _names("ctid xmin xmax cmin cmax tableoid oid")

OF_ROWS: Final = _names(
    "any_value array_agg json_agg json_agg_strict jsonb_agg jsonb_agg_strict concat hash_record"
    " json_build_array json_build_object jsonb_build_array jsonb_build_object num_nonnulls num_nulls"
    " quote_literal quote_nullable record_out record_send row_to_json to_json to_jsonb"
)
"""Functions that take a whole row, and would be called by `t.name` if `t` has no such column: not what is harmless and
a usual name (count, min, max), nor what has a reserved name."""

ACCESS_METHODS: Final = _names("btree hash gin")

INSTEAD: Final[Mapping[str, str]] = MappingProxyType(
    {
        "datetime": "now(), or a cast such as '2026-01-31 10:00'::timestamp",
        "strftime": "to_char(time, 'YYYY-MM-DD')",
        "julianday": "a difference of dates or timestamps",
        "unixepoch": "extract(epoch from time)",
        "time": "a cast such as '10:00'::time",
        "ifnull": "coalesce(a, b)",
        "iif": "CASE WHEN condition THEN a ELSE b END",
        "group_concat": "string_agg(value, ',')",
        "total": "coalesce(sum(value), 0)",
        "instr": "strpos(text, part)",
        "hex": "encode(bytes, 'hex')",
        "json_extract": "value ->> 'name', where value is jsonb",
        **{
            f"json_{name}": f"jsonb_{name}(value)"
            for name in (
                *("array_elements", "array_elements_text", "array_length", "each", "each_text", "extract_path"),
                *("extract_path_text", "object_keys", "typeof"),
            )
        },
        "last_insert_rowid": "INSERT ... RETURNING id",
        "printf": "|| and to_char",
        "format": "|| and to_char",
        "regexp_replace": "replace, translate, split_part, LIKE or ILIKE",
        "regexp_matches": "LIKE or ILIKE",
        "regexp_match": "LIKE or ILIKE",
        "nextval": "a column that is GENERATED BY DEFAULT AS IDENTITY, and INSERT ... RETURNING",
        "stddev": "stddev(value::float8)",
    }
)
"""Replacements of functions that models like to use."""


FIELDS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        # Statements. Not SelectStmt.intoClause, .lockingClause.
        "SelectStmt": _names(
            "distinctClause targetList fromClause whereClause groupClause havingClause windowClause valuesLists"
            " sortClause limitOffset limitCount limitOption withClause op all larg rarg"
        ),
        "InsertStmt": _names("relation cols selectStmt onConflictClause returningClause withClause override"),
        "UpdateStmt": _names("relation targetList whereClause fromClause returningClause withClause"),
        "DeleteStmt": _names("relation usingClause whereClause returningClause withClause"),
        "CreateStmt": _names("relation tableElts constraints if_not_exists oncommit"),
        "IndexStmt": _names(
            "idxname relation accessMethod indexParams indexIncludingParams whereClause unique if_not_exists"
            " nulls_not_distinct"
        ),
        "AlterTableStmt": _names("relation cmds objtype missing_ok"),
        "AlterTableCmd": _names("subtype name def_ behavior missing_ok"),
        "RenameStmt": _names("renameType relationType relation subname newname behavior missing_ok"),
        "DropStmt": _names("objects removeType behavior missing_ok"),
        # Parts of queries.
        "ResTarget": _names("name val"),
        "ReturningClause": _names("exprs"),
        "OnConflictClause": _names("action infer targetList whereClause"),
        "InferClause": _names("indexElems whereClause conname"),
        "WithClause": _names("ctes recursive"),
        "CommonTableExpr": _names("ctename aliascolnames ctematerialized ctequery"),
        "RangeVar": _names("relname inh relpersistence alias"),
        "RangeSubselect": _names("lateral subquery alias"),
        "RangeFunction": _names("lateral ordinality functions alias"),
        "JoinExpr": _names("jointype isNatural larg rarg usingClause quals alias"),
        "Alias": _names("aliasname colnames"),
        "SortBy": _names("node sortby_dir sortby_nulls"),
        "WindowDef": _names("name refname partitionClause orderClause frameOptions startOffset endOffset"),
        # Expressions. Not A_Indirection by a name: `(t).f` calls f(t).
        "A_Const": _names("isnull val"),
        "Integer": _names("ival"),
        "Float": _names("fval"),
        "String": _names("sval"),
        "Boolean": _names("boolval"),
        "A_Star": frozenset(),
        "ParamRef": _names("number"),
        "ColumnRef": _names("fields"),
        "A_Expr": _names("kind name lexpr rexpr"),
        "BoolExpr": _names("boolop args"),
        "NullTest": _names("arg nulltesttype"),
        "BooleanTest": _names("arg booltesttype"),
        "SubLink": _names("subLinkType testexpr operName subselect"),
        "CaseExpr": _names("arg args defresult"),
        "CaseWhen": _names("expr result"),
        "CoalesceExpr": _names("args"),
        "MinMaxExpr": _names("op args"),
        "A_ArrayExpr": _names("elements"),
        "A_Indirection": _names("arg indirection"),
        "A_Indices": _names("is_slice lidx uidx"),
        "RowExpr": _names("args row_format"),
        "TypeCast": _names("arg typeName"),
        "FuncCall": _names("funcname args agg_order agg_filter agg_within_group agg_star agg_distinct over funcformat"),
        "SQLValueFunction": _names("op typmod"),
        "SetToDefault": frozenset(),
        "MultiAssignRef": _names("source colno ncolumns"),
        # Definitions. Not storage, compression, collation, options, tablespaces, exclusion, named indexes.
        "TypeName": _names("names typmods typemod arrayBounds"),
        "ColumnDef": _names("colname typeName is_local constraints raw_default"),
        "Constraint": _names(
            "contype conname deferrable initdeferred initially_valid is_enforced raw_expr keys pktable fk_attrs"
            " pk_attrs fk_matchtype fk_upd_action fk_del_action fk_del_set_cols generated_when generated_kind"
            " nulls_not_distinct including"
        ),
        "IndexElem": _names("name expr ordering nulls_ordering"),
    }
)
"""The nodes that a statement may consist of, and which of their fields may be set: another one must be empty, also one
that a later version of the parser adds."""

CHOICES: Final[Mapping[tuple[str, str], frozenset[str]]] = MappingProxyType(
    {
        ("SelectStmt", "limitOption"): _names("LIMIT_OPTION_DEFAULT LIMIT_OPTION_COUNT"),
        ("CreateStmt", "oncommit"): _names("ONCOMMIT_NOOP"),
        ("AlterTableStmt", "objtype"): _names("OBJECT_TABLE"),
        ("AlterTableCmd", "subtype"): _names(
            "AT_AddColumn AT_DropColumn AT_ColumnDefault AT_SetNotNull AT_DropNotNull AT_AddConstraint"
            " AT_DropConstraint AT_AlterColumnType"
        ),
        ("RenameStmt", "renameType"): _names("OBJECT_TABLE OBJECT_COLUMN OBJECT_INDEX OBJECT_TABCONSTRAINT"),
        ("RenameStmt", "relationType"): _names("OBJECT_ACCESS_METHOD OBJECT_TABLE OBJECT_INDEX"),  # the first is unset
        ("DropStmt", "removeType"): _names("OBJECT_TABLE OBJECT_INDEX"),
        ("A_Expr", "kind"): _names(
            "AEXPR_OP AEXPR_OP_ANY AEXPR_OP_ALL AEXPR_DISTINCT AEXPR_NOT_DISTINCT AEXPR_NULLIF AEXPR_IN AEXPR_LIKE"
            " AEXPR_ILIKE AEXPR_BETWEEN AEXPR_NOT_BETWEEN AEXPR_BETWEEN_SYM AEXPR_NOT_BETWEEN_SYM"
        ),
        ("SubLink", "subLinkType"): _names("EXISTS_SUBLINK ALL_SUBLINK ANY_SUBLINK EXPR_SUBLINK ARRAY_SUBLINK"),
        ("RowExpr", "row_format"): _names("COERCE_EXPLICIT_CALL COERCE_IMPLICIT_CAST"),
        ("SortBy", "sortby_dir"): _names("SORTBY_DEFAULT SORTBY_ASC SORTBY_DESC"),  # not USING an operator
        ("SQLValueFunction", "op"): _names(
            "SVFOP_CURRENT_DATE SVFOP_CURRENT_TIME SVFOP_CURRENT_TIME_N SVFOP_CURRENT_TIMESTAMP"
            " SVFOP_CURRENT_TIMESTAMP_N SVFOP_LOCALTIME SVFOP_LOCALTIME_N SVFOP_LOCALTIMESTAMP SVFOP_LOCALTIMESTAMP_N"
        ),
        ("Constraint", "contype"): _names(
            "CONSTR_NULL CONSTR_NOTNULL CONSTR_DEFAULT CONSTR_IDENTITY CONSTR_GENERATED CONSTR_CHECK CONSTR_PRIMARY"
            " CONSTR_UNIQUE CONSTR_FOREIGN CONSTR_ATTR_DEFERRABLE CONSTR_ATTR_NOT_DEFERRABLE CONSTR_ATTR_DEFERRED"
            " CONSTR_ATTR_IMMEDIATE"
        ),
    }
)
"""Fields with a choice, of which only these are allowed."""

PLACES: Final = frozenset(
    {"location", "stmt_location", "stmt_len", "rexpr_list_start", "rexpr_list_end", "list_start", "list_end"}
)
"""Fields that are only positions in the text."""
