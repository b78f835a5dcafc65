"""Base model of the options of a row that depend on one another."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from dslc.blocks.block import GroupModel
from dslc.blocks.relations import lacking, misfits
from dslc.blocks.setting import field_name, settings_of


class Options(GroupModel):
    """Options of a row. The model enforces the same relations between its fields as `dslc check`."""

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        settings = settings_of(type(self))
        fields = {setting.name: field_name(setting.name) for setting in settings}
        given = {name: getattr(self, field) for name, field in fields.items() if field in self.model_fields_set}
        given = {name: value for name, value in given.items() if value is not None}
        wrong = list(lacking(settings, given)) or list(misfits(settings, given))
        if wrong:
            raise ValueError("; ".join(f"{each.message}: {each.hint}" for each in wrong))
        return self
