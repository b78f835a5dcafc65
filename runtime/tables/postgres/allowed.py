"""The functions, operators, types and names that statements may use.

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
    "sum",
    "json",  # the sum, with escapes
    "several",  # as many values as the first argument has
    "double",
    "cut",  # the second argument is a length
    "pad",
    "repeat",
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
"""How long the result of a function may be; see `sizes`."""


def _rows(growth: Growth, names: str) -> dict[str, Growth]:
    return dict.fromkeys(names.split(), growth)


FUNCTIONS: Final[Mapping[str, Growth]] = MappingProxyType(
    {
        **_rows(
            "number",
            "sum avg abs ceil ceiling floor round trunc sign mod div sin cos tan asin acos atan atan2 pi degrees"
            " radians percentile_cont corr",
        ),
        **_rows(
            "small",
            "count bool_and bool_or every row_number rank dense_rank percent_rank cume_dist ntile length char_length"
            " character_length octet_length ascii chr md5 sha256 random gen_random_uuid starts_with"
            " now clock_timestamp statement_timestamp transaction_timestamp date_trunc date_part extract age to_date"
            " to_timestamp make_date make_time make_timestamp make_timestamptz make_interval justify_days"
            " justify_hours justify_interval timezone isfinite overlaps date"
            " array_length array_upper array_lower cardinality array_position json_array_length jsonb_array_length"
            " json_typeof jsonb_typeof",
        ),
        **_rows(
            "largest",
            "min max lower upper initcap trim btrim ltrim rtrim right reverse lag lead first_value last_value nth_value"
            " mode array_remove unnest jsonb_array_elements jsonb_array_elements_text"
            " json_array_elements json_array_elements_text jsonb_each jsonb_each_text jsonb_object_keys"
            " jsonb_extract_path jsonb_extract_path_text jsonb_strip_nulls",
        ),
        **_rows(
            "sum",
            "concat concat_ws array_append array_prepend array_cat jsonb_set",
        ),
        **_rows(
            "json",
            "jsonb_build_object jsonb_build_array json_build_object json_build_array to_json to_jsonb",
        ),
        **_rows("several", "percentile_disc"),
        **_rows("double", "encode decode like_escape"),
        **_rows("cut", "left substr substring"),
        **_rows("pad", "lpad rpad"),
        **_rows("repeat", "repeat"),
        **_rows("replace", "replace"),
        **_rows("find", "position strpos split_part"),
        **_rows("join", "array_to_string"),
        **_rows("split", "string_to_array"),
        **_rows("translate", "translate"),
        **_rows("pattern", "to_char"),
        **_rows(
            "float",
            "sqrt exp ln log power pow stddev stddev_samp stddev_pop variance var_samp var_pop",
        ),
        **_rows("collect", "string_agg array_agg json_agg jsonb_agg json_object_agg jsonb_object_agg"),
        **_rows("series", "generate_series"),
    }
)

_NEVER_STORED: Final = frozenset({"collect", "series", "several", "sum", "json", "pad", "repeat", "replace", "join"})

STORED: Final = frozenset(name for name, growth in FUNCTIONS.items() if growth not in _NEVER_STORED)
"""Functions that may also be in defaults, checks, generated columns and indexes, which run with each later change."""

IN_FROM: Final = frozenset(
    [
        "generate_series",
        "unnest",
        "jsonb_array_elements",
        "jsonb_array_elements_text",
        "json_array_elements",
        "jsonb_each",
        "json_array_elements_text",
        "jsonb_each_text",
        "jsonb_object_keys",
    ]
)
"""Functions that may be in FROM."""

OPERATORS: Final = frozenset(
    [
        "+",
        "-",
        "*",
        "/",
        "%",
        "=",
        "<>",
        "!=",
        "<",
        ">",
        "<=",
        ">=",
        "||",
        "~~",
        "!~~",
        "~~*",
        "!~~*",
        "->",
        "->>",
        "#>",
        "#>>",
        "@>",
        "<@",
        "&&",
    ]
)
COSTLY: Final = frozenset(["*", "/", "%"])
"""Operators whose time grows with the square of the digits of a NUMERIC."""
COMPARING: Final = frozenset(["~~", "!~~", "~~*", "!~~*", "@>", "<@", "&&"])
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
    }
)
"""Types of other databases, and those that are used instead."""

RESULTS: Final = frozenset(TYPES) | {f"{name}[]" for name in TYPES}
"""Types that a result may contain."""

SYSTEM_COLUMNS: Final = frozenset(["ctid", "xmin", "xmax", "cmin", "cmax", "tableoid", "oid"])

OF_ROWS: Final = frozenset(
    [
        *("any_value", "array_agg", "json_agg", "json_agg_strict", "jsonb_agg", "jsonb_agg_strict"),
        *("concat", "hash_record", "json_build_array", "json_build_object", "jsonb_build_array", "jsonb_build_object"),
        *("num_nonnulls", "num_nulls", "quote_literal", "quote_nullable", "record_out", "record_send"),
        *("row_to_json", "to_json", "to_jsonb"),
    ]
)
"""Functions that take a whole row, and would be called by `t.name` if `t` has no such column: not what is harmless and
a usual name (count, min, max), nor what has a reserved name."""

ACCESS_METHODS: Final = frozenset(["btree", "hash", "gin"])

INSTEAD: Final[Mapping[str, str]] = MappingProxyType(
    {
        "datetime": "now(), or a cast such as '2026-01-31 10:00'::timestamp",
        "strftime": "to_char(time, 'YYYY-MM-DD')",
        "julianday": "a difference of dates or timestamps",
        "unixepoch": "extract(epoch from time)",
        "time": "a cast such as '10:00'::time",
        "ifnull": "coalesce(a, b)",
        "iif": "CASE WHEN condition THEN a ELSE b END",
        "group_concat": "string_agg(value, ',') over a subquery with LIMIT",
        "total": "coalesce(sum(value), 0)",
        "instr": "strpos(text, part)",
        "hex": "encode(bytes, 'hex')",
        "json_extract": "value ->> 'name', where value is jsonb",
        "json_each": "jsonb_each(value)",
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
"""What to write instead of functions that models like to use."""
