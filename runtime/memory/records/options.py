"""The options of `store records`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from dslc.blocks.values.types import As
from dslc.blocks.variant import Variant

Gate = Literal["governance", "tdd_proof", "evidence", "risk_tier"]


class RecordsOptions(BaseModel):
    """Gates and remote of a records store."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    gates: tuple[Gate, ...] = Field(
        default=(),
        description="The gates that every write must close; otherwise it is refused with the name of the gate. "
        "`governance`: what was done, or why it does not apply. `tdd_proof`: the test that failed "
        "and then passed, or why there is none. `evidence`: the files that support it. `risk_tier`: "
        "GREEN, YELLOW or RED.",
    )
    remote: Annotated[Variant | None, As("variant", family="remote")] = Field(
        default=None,
        description="The remote that gets a redacted copy of every record, with its own options. A record is "
        "stored locally first, and sent later if the remote is unavailable.",
    )
