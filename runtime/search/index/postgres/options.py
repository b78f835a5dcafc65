"""The options of `index postgres`."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from dslc.blocks.block import GroupModel
from dslc.blocks.values.types import Duration, Form, SecretReference

_OWN = Form(
    r"(?!pg_|(?:public|information_schema)\Z)[a-z_][a-z0-9_]{0,62}",
    "a schema for the index alone: small letters, digits and `_`, neither `public` nor one of PostgreSQL's own",
)


class PostgresOptions(GroupModel):
    """Options of the index: the PostgreSQL server, and how its vectors are searched."""

    url: SecretReference = Field(
        description="The server and database, as `postgresql://USER:PASSWORD@HOST:PORT/NAME`. It contains a "
        "password, so use a reference to a secret with the whole URL.",
        examples=["secret://env/SEARCH_DATABASE_URL"],
    )
    schema_: Annotated[str, _OWN] | None = Field(
        default=None,
        validation_alias="schema",
        description="The schema of the tables, for this memory alone. The default is `symbiont_` with a name "
        "derived from the memory's store.",
        examples=["symbiont_notes"],
    )
    exact: bool = Field(
        default=False,
        description="Compare a question with every vector, without an HNSW index: no nearest vector is missed, "
        "but the time grows with their number.",
    )
    ef_search: int = Field(
        default=200,
        ge=1,
        le=1000,
        description="Minimum number of candidates during an HNSW search: more candidates find more and take "
        "longer. A search for more hits uses as many candidates as hits.",
    )
    pool: int = Field(default=4, ge=1, le=100, description="Maximum number of connections to the server.")
    timeout: Duration = Field(
        default=timedelta(seconds=30),
        ge=timedelta(seconds=1),
        le=timedelta(minutes=10),
        description="Timeout of a connection or a statement.",
    )
