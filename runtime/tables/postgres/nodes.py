"""The nodes of parse trees that a statement may consist of, and which of their fields may be set.

A field that is not listed must be empty, also one that a later version of the parser adds.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final


def _fields(names: str) -> frozenset[str]:
    return frozenset(names.split())


FIELDS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        # Statements. Not SelectStmt.intoClause, .lockingClause.
        "SelectStmt": _fields(
            "distinctClause targetList fromClause whereClause groupClause havingClause windowClause valuesLists"
            " sortClause limitOffset limitCount limitOption withClause op all larg rarg"
        ),
        "InsertStmt": _fields("relation cols selectStmt onConflictClause returningClause withClause override"),
        "UpdateStmt": _fields("relation targetList whereClause fromClause returningClause withClause"),
        "DeleteStmt": _fields("relation usingClause whereClause returningClause withClause"),
        "CreateStmt": _fields("relation tableElts constraints if_not_exists oncommit"),
        "IndexStmt": _fields(
            "idxname relation accessMethod indexParams indexIncludingParams whereClause unique if_not_exists"
            " nulls_not_distinct"
        ),
        "AlterTableStmt": _fields("relation cmds objtype missing_ok"),
        "AlterTableCmd": _fields("subtype name def_ behavior missing_ok"),
        "RenameStmt": _fields("renameType relationType relation subname newname behavior missing_ok"),
        "DropStmt": _fields("objects removeType behavior missing_ok"),
        # Parts of queries.
        "ResTarget": _fields("name val"),
        "ReturningClause": _fields("exprs"),
        "OnConflictClause": _fields("action infer targetList whereClause"),
        "InferClause": _fields("indexElems whereClause conname"),
        "WithClause": _fields("ctes recursive"),
        "CommonTableExpr": _fields("ctename aliascolnames ctematerialized ctequery"),
        "RangeVar": _fields("relname inh relpersistence alias"),
        "RangeSubselect": _fields("lateral subquery alias"),
        "RangeFunction": _fields("lateral ordinality functions alias"),
        "JoinExpr": _fields("jointype isNatural larg rarg usingClause quals alias"),
        "Alias": _fields("aliasname colnames"),
        "SortBy": _fields("node sortby_dir sortby_nulls"),
        "WindowDef": _fields("name refname partitionClause orderClause frameOptions startOffset endOffset"),
        # Expressions. Not A_Indirection by a name: `(t).f` calls f(t).
        "A_Const": _fields("isnull val"),
        "Integer": _fields("ival"),
        "Float": _fields("fval"),
        "String": _fields("sval"),
        "Boolean": _fields("boolval"),
        "A_Star": frozenset(),
        "ParamRef": _fields("number"),
        "ColumnRef": _fields("fields"),
        "A_Expr": _fields("kind name lexpr rexpr"),
        "BoolExpr": _fields("boolop args"),
        "NullTest": _fields("arg nulltesttype"),
        "BooleanTest": _fields("arg booltesttype"),
        "SubLink": _fields("subLinkType testexpr operName subselect"),
        "CaseExpr": _fields("arg args defresult"),
        "CaseWhen": _fields("expr result"),
        "CoalesceExpr": _fields("args"),
        "MinMaxExpr": _fields("op args"),
        "A_ArrayExpr": _fields("elements"),
        "A_Indirection": _fields("arg indirection"),
        "A_Indices": _fields("is_slice lidx uidx"),
        "RowExpr": _fields("args row_format"),
        "TypeCast": _fields("arg typeName"),
        "FuncCall": _fields(
            "funcname args agg_order agg_filter agg_within_group agg_star agg_distinct over funcformat"
        ),
        "SQLValueFunction": _fields("op typmod"),
        "SetToDefault": frozenset(),
        "MultiAssignRef": _fields("source colno ncolumns"),
        # Definitions. Not storage, compression, collation, options, tablespaces, exclusion, named indexes.
        "TypeName": _fields("names typmods typemod arrayBounds"),
        "ColumnDef": _fields("colname typeName is_local constraints raw_default"),
        "Constraint": _fields(
            "contype conname deferrable initdeferred initially_valid is_enforced raw_expr keys pktable fk_attrs"
            " pk_attrs fk_matchtype fk_upd_action fk_del_action fk_del_set_cols generated_when generated_kind"
            " nulls_not_distinct including"
        ),
        "IndexElem": _fields("name expr ordering nulls_ordering"),
    }
)

CHOICES: Final[Mapping[tuple[str, str], frozenset[str]]] = MappingProxyType(
    {
        ("SelectStmt", "limitOption"): _fields("LIMIT_OPTION_DEFAULT LIMIT_OPTION_COUNT"),
        ("CreateStmt", "oncommit"): _fields("ONCOMMIT_NOOP"),
        ("AlterTableStmt", "objtype"): _fields("OBJECT_TABLE"),
        ("AlterTableCmd", "subtype"): _fields(
            "AT_AddColumn AT_DropColumn AT_ColumnDefault AT_SetNotNull AT_DropNotNull AT_AddConstraint"
            " AT_DropConstraint AT_AlterColumnType"
        ),
        ("RenameStmt", "renameType"): _fields("OBJECT_TABLE OBJECT_COLUMN OBJECT_INDEX OBJECT_TABCONSTRAINT"),
        ("RenameStmt", "relationType"): _fields("OBJECT_ACCESS_METHOD OBJECT_TABLE OBJECT_INDEX"),  # the first is unset
        ("DropStmt", "removeType"): _fields("OBJECT_TABLE OBJECT_INDEX"),
        ("A_Expr", "kind"): _fields(
            "AEXPR_OP AEXPR_OP_ANY AEXPR_OP_ALL AEXPR_DISTINCT AEXPR_NOT_DISTINCT AEXPR_NULLIF AEXPR_IN AEXPR_LIKE"
            " AEXPR_ILIKE AEXPR_BETWEEN AEXPR_NOT_BETWEEN AEXPR_BETWEEN_SYM AEXPR_NOT_BETWEEN_SYM"
        ),
        ("SubLink", "subLinkType"): _fields("EXISTS_SUBLINK ALL_SUBLINK ANY_SUBLINK EXPR_SUBLINK ARRAY_SUBLINK"),
        ("RowExpr", "row_format"): _fields("COERCE_EXPLICIT_CALL COERCE_IMPLICIT_CAST"),
        ("SortBy", "sortby_dir"): _fields("SORTBY_DEFAULT SORTBY_ASC SORTBY_DESC"),  # not USING an operator
        ("SQLValueFunction", "op"): _fields(
            "SVFOP_CURRENT_DATE SVFOP_CURRENT_TIME SVFOP_CURRENT_TIME_N SVFOP_CURRENT_TIMESTAMP"
            " SVFOP_CURRENT_TIMESTAMP_N SVFOP_LOCALTIME SVFOP_LOCALTIME_N SVFOP_LOCALTIMESTAMP SVFOP_LOCALTIMESTAMP_N"
        ),
        ("Constraint", "contype"): _fields(
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
