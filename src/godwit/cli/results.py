"""`godwit results`: only a server has them at hand without Spark."""

from __future__ import annotations

from typing import Annotated

import typer

from godwit.errors import ConfigError

Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on as results come.")]


def results(query: Annotated[str, typer.Argument(help="The query's name.")], follow: Follow = False) -> None:
    """A query's results, a line of JSON per row. They come from a server: godwit --server URL results QUERY."""
    msg = f"results of '{query}' come from a server: give `godwit --server URL results {query}`, or set GODWIT_SERVER"
    raise ConfigError(msg)
