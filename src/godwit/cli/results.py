"""`godwit results`: only a server has them at hand without Spark."""

from __future__ import annotations

from typing import Annotated

import typer

from godwit.errors import ConfigError


def results(query: Annotated[str, typer.Argument(help="The query's name.")]) -> None:
    """A query's results, a line of JSON per row."""
    msg = f"results of '{query}' come from a server: give `godwit --server URL results {query}`, or set GODWIT_SERVER"
    raise ConfigError(msg)
