"""`godwit migrate`: move keys of a running query to another site, or say what would move."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from godwit.cli.ask import Folder, Wait, answered
from godwit.cli.choices import KeyStrategy
from godwit.errors import ConfigError


def migrate(
    folder: Folder,
    query: Annotated[str, typer.Argument(help="The query's name.")],
    to: Annotated[str, typer.Option(help="The site they go to.")],
    keys: Annotated[
        list[str] | None,
        typer.Option(help="A key, a pattern ('S41-*'), buckets/LOW/HIGH, or '*' for the rest; repeatable."),
    ] = None,
    keys_file: Annotated[Path | None, typer.Option(help="Keys from a .parquet, .arrow, .csv or text file.")] = None,
    strategy: KeyStrategy = "auto",
    operator: Annotated[int | None, typer.Option(help="Which operator, if several keep state by key.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would move, and move nothing.")] = False,
    wait: Wait = 10.0,
) -> None:
    """Move keys of a running query to another site while it runs."""
    from godwit.control.commands import MigrateKeys

    command = MigrateKeys(query, named_keys(keys, keys_file), to, strategy, operator)
    if dry_run:
        from godwit.cli.key_dry_run import explained

        typer.echo(explained(folder, command))
        return
    answered(folder, command, wait)


def named_keys(keys: list[str] | None, file: Path | None) -> tuple[str, ...]:
    """The keys of a command, given one by one or in a file."""
    if bool(keys) == (file is not None):
        msg = "say which keys: either --keys, once or several times, or --keys-file"
        raise ConfigError(msg)
    if file is not None:
        from godwit.api.key_names import as_keys
        from godwit.cli.keys_file import keys_of

        return as_keys(keys_of(file))
    assert keys
    return tuple(keys[0].split("/")) if len(keys) == 1 and keys[0].startswith("buckets/") else tuple(keys)
