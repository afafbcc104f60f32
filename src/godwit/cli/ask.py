"""`godwit submit`, `withdraw`, `alter` and `alter-stream`: commands to a running fleet from elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from godwit.control.commands import Alter, AlterStream, Command, Submit, Withdraw
from godwit.errors import ConfigError
from godwit.storage.command_log import CommandLog
from godwit.storage.open_store import open_store

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
    answered(folder, Submit(query, text(sql), sink), wait)


def withdraw(folder: Folder, query: Annotated[str, typer.Argument(help="Its name.")], wait: Wait = 60.0) -> None:
    """Stop a query of a running fleet; its results stay readable."""
    answered(folder, Withdraw(query), wait)


def alter(
    folder: Folder,
    query: Annotated[str, typer.Argument(help="The query's name.")],
    sql: Annotated[str, typer.Argument(help="A file with the same SQL and other literals, or the SQL itself.")],
    wait: Wait = 60.0,
) -> None:
    """Give a running query other parameters. It begins again with them; its shape must stay the same."""
    answered(folder, Alter(query, text(sql)), wait)


def alter_stream(
    folder: Folder,
    stream: Annotated[str, typer.Argument(help="The stream's name.")],
    add: Annotated[str, typer.Argument(help="Its new columns: 'color string, weight double'.")],
    wait: Wait = 60.0,
) -> None:
    """Give a stream columns more. Queries that run go on; rows without the columns have NULL there."""
    answered(folder, AlterStream(stream, add), wait)


def text(sql: str) -> str:
    """SQL as it stands, or from a file."""
    if " " in sql.strip():
        return sql
    try:
        return Path(sql).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"'{sql}' is neither SQL nor a file of it ({error})"
        raise ConfigError(msg) from error


def answered(folder: str, command: Command, wait: float) -> None:
    """Write the command, say what has become of it; a refusal ends with exit code 1."""
    say(*ask(folder, command), wait)


def ask(folder: str, command: Command) -> tuple[CommandLog, int]:
    commands = CommandLog(open_store(folder), must_exist=True)
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
