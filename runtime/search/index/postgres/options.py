"""What a program says behind `index postgres`."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from dslc.blocks.block import Group
from dslc.blocks.values.types import Duration, Form, SecretReference

_OWN = Form(
    r"(?!pg_|(?:public|information_schema)\Z)[a-z_][a-z0-9_]{0,62}",
    "a schema for the index alone: small letters, digits and `_`, neither `public` nor one of PostgreSQL's own",
)


class PostgresOptions(Group):
    """Which PostgreSQL holds the index, and how its vectors are searched."""

    url: SecretReference = Field(
        description="The server and database, as `postgresql://USER:PASSWORD@HOST:PORT/NAME`. It holds a password, so "
        "name a secret that holds it all.",
        examples=["secret://env/SEARCH_DATABASE_URL"],
    )
    schema_: Annotated[str, _OWN] | None = Field(
        default=None,
        validation_alias="schema",
        description="The schema that holds the tables, for this memory alone. Without it `symbiont_` and a name made "
        "of the memory's store.",
        examples=["symbiont_notes"],
    )
    exact: bool = Field(
        default=False,
        description="Compare a question with every vector, and make no HNSW index: every nearest one is found, and it "
        "takes longer the more there are.",
    )
    ef_search: int = Field(
        default=200,
        ge=1,
        le=1000,
        description="How many candidates HNSW keeps while it searches, at least: more find more and take longer. A "
        "search that wants more hits than this keeps as many as it wants.",
    )
    m: int = Field(default=16, ge=2, le=100, description="Neighbours of a vector in HNSW's graph.")
    ef_construction: int = Field(
        default=64,
        ge=4,
        le=1000,
        description="Candidates while HNSW's graph is built, at least twice `m`. With another one, or another `m`, the "
        "graph is built again.",
    )
    pool: int = Field(default=4, ge=1, le=100, description="Connections to the server at most.")
    timeout: Duration = Field(
        default=timedelta(seconds=30),
        ge=timedelta(seconds=1),
        le=timedelta(minutes=10),
        description="How long a connection or a statement may take.",
    )
