"""`godwit submit`, `withdraw`, `alter` and `alter-stream`: commands to a running fleet from elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from godwit.errors import ConfigError

if TYPE_CHECKING:
    from godwit.control.commands import Command
    from godwit.storage.command_log import CommandLog
    from godwit.storage.store import Store

#: a path, or what `godwit.storage.open_store` takes
Folder = Annotated[str, typer.Argument(help="The fleet's folder, or its store's URL (nats://..., s3://...).")]
Wait = Annotated[float, typer.Option(help="Seconds to wait for the answer (0: do not wait).")]


def submit(
    folder: Folder,
    query: Annotated[str, typer.Argument(help="The query's name.")],
    sql: Annotated[str, typer.Argument(help="A file with its SQL, or the SQL itself.")],
    sink: Annotated[str | None, typer.Option(help="The site where its results leave.")] = None,
    wait: Wait = 60.0,
) -> None:
    """Submit a query to a running fleet."""
    from godwit.control.commands import Submit

    answered(folder, Submit(query, text(sql), sink), wait)


def withdraw(folder: Folder, query: Annotated[str, typer.Argument(help="Its name.")], wait: Wait = 60.0) -> None:
    """Stop a query of a running fleet; its results stay readable."""
    from godwit.control.commands import Withdraw

    answered(folder, Withdraw(query), wait)


def alter(
    folder: Folder,
    query: Annotated[str, typer.Argument(help="The query's name.")],
    sql: Annotated[str, typer.Argument(help="A file with the same SQL and other literals, or the SQL itself.")],
    wait: Wait = 60.0,
) -> None:
    """Give a running query other literals; the SQL must be the same otherwise. It begins again with them."""
    from godwit.control.commands import Alter

    answered(folder, Alter(query, text(sql)), wait)


def alter_stream(
    folder: Folder,
    stream: Annotated[str, typer.Argument(help="The stream's name.")],
    add: Annotated[str, typer.Argument(help="Its new columns: 'color string, weight double'.")],
    wait: Wait = 60.0,
) -> None:
    """Add columns to a stream. Queries that run go on; rows without the columns have NULL there."""
    from godwit.control.commands import AlterStream

    answered(folder, AlterStream(stream, add), wait)


def text(sql: str) -> str:
    """SQL as it stands, or from a file (- for stdin)."""
    if sql == "-":
        return sys.stdin.read()
    is_file = len(sql) < 256 and Path(sql).is_file()
    if not is_file and len(sql.split()) > 1:
        return sql
    try:
        return Path(sql).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror or error) if isinstance(error, OSError) else error
        msg = f"'{sql}' is neither SQL nor a file with SQL ({why}); put SQL into quotes, or check the path"
        raise ConfigError(msg) from error


def answered(folder: str, command: Command, wait: float) -> None:
    """Write the command, say what has become of it; a refusal ends with exit code 1."""
    store = opened(folder)
    before = suspended(store)
    say(*ask(store, command), wait)
    for query, why in suspended(store).items() if wait else ():
        if before.get(query) != why:
            typer.echo(f"suspended: {query}: {why}", err=True)


def opened(folder: str) -> Store:
    from godwit.storage.open_store import open_store

    return open_store(folder)


def suspended(store: Store) -> dict[str, str]:
    """Queries of a fleet that have no place now, with the reason."""
    from godwit.storage.epoch_log import Control
    from godwit.storage.names import CONTROL

    if not store.disk.exists(CONTROL):
        return {}
    store.refresh(CONTROL)
    control = Control(store)
    return {str(query): why for query, why in control.deployment_at(control.last).parked.items()}


def ask(store: Store, command: Command) -> tuple[CommandLog, int]:
    from godwit.storage.command_log import CommandLog

    commands = CommandLog(store, must_exist=True)
    return commands, commands.append(command)


def say(commands: CommandLog, number: int, wait: float) -> None:
    answer = commands.await_answer(number, wait)
    if answer is None:
        typer.echo(f"queued as command {number}: a fleet carries it out when it runs")
    elif answer.taken:
        typer.echo(f"accepted: epoch {answer.epoch}")
    else:
        typer.echo(f"error: refused: {answer.message}", err=True)
        raise typer.Exit(1)
