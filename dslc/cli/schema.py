"""`dslc schema`."""

from __future__ import annotations

import click

from dslc.cli.terminal import put


@click.command()
def schema() -> None:
    """Print the JSON Schema (2020-12) of `dslc compile`'s output."""
    import json

    from dslc.catalog import Catalog
    from dslc.json_schema import schema as schema_of
    from dslc.vocabulary import Vocabulary

    put(json.dumps(schema_of(Vocabulary(Catalog.installed())), indent=2, ensure_ascii=False) + "\n")
