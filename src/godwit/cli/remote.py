"""Commands to a fleet behind a server: `godwit --server URL submit NAME SQL`, without a folder."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from godwit.cli.ask import text
from godwit.cli.changes import lines
from godwit.cli.migrate import named_keys
from godwit.cli.output import as_json
from godwit.cli.replan import Down, DryRun, Order, Partial, Strategy, Text, Up
from godwit.client import RemoteFleet
from godwit.errors import ConfigError

Query = Annotated[str, typer.Argument(help="The query's name.")]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Return the command's number at once.")]


def profile(environment: Mapping[str, str]) -> dict[str, str]:
    """What the user's profile says: `server` and `token`; nothing if there is none."""
    home = Path(environment.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    file = home / "godwit" / "profile.yaml"
    try:
        told = yaml.safe_load(file.read_text(encoding="utf-8")) if file.exists() else {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        msg = f"{file} cannot be read as a profile ({error}); it has the lines `server: URL` and `token: TOKEN`"
        raise ConfigError(msg) from error
    if not isinstance(told, dict) or not all(isinstance(value, str) for value in told.values()):
        msg = f"{file} is not a profile; it has the lines `server: URL` and `token: TOKEN`"
        raise ConfigError(msg)
    return told


def server_of(flag: str | None, environment: Mapping[str, str]) -> str | None:
    """Which server is meant: the flag, or else the environment, or else the profile."""
    return flag or environment.get("GODWIT_SERVER") or profile(environment).get("server")


def connected() -> RemoteFleet:
    """The server of this call of `godwit` (see `main`)."""
    environment = os.environ
    url = server_of(None, environment)
    assert url is not None
    return RemoteFleet(url, environment.get("GODWIT_TOKEN") or profile(environment).get("token"))


def submit(
    query: Query,
    sql: Annotated[str, typer.Argument(help="A file with its SQL, or the SQL itself.")],
    sink: Annotated[str | None, typer.Option(help="The site where its results leave.")] = None,
    no_wait: NoWait = False,
) -> None:
    """Submit a query."""
    with connected() as fleet:
        _say(fleet.submit(text(sql), query, sink=sink, wait=not no_wait))


def withdraw(query: Query, no_wait: NoWait = False) -> None:
    """Stop a query; its results stay readable."""
    with connected() as fleet:
        _say(fleet.withdraw(query, wait=not no_wait))


def alter(
    query: Query,
    sql: Annotated[str, typer.Argument(help="A file with the same SQL and other literals, or the SQL itself.")],
    no_wait: NoWait = False,
) -> None:
    """Give a running query other parameters."""
    with connected() as fleet:
        _say(fleet.alter(query, text(sql), wait=not no_wait))


def replan(
    query: Query,
    order: Order = "",
    partial: Partial = None,
    filters_up: Up = None,
    filters_down: Down = None,
    strategy: Strategy = "auto",
    dry_run: DryRun = False,
) -> None:
    """Give a running query another plan; its results go on, each of them once."""
    wish = {"order": order, "partial": partial, "filters_up": filters_up or (), "filters_down": filters_down or ()}
    with connected() as fleet:
        typer.echo(fleet.replan(query, **wish, strategy=strategy, dry_run=dry_run))  # type: ignore[arg-type]


def replace(query: Query, sql: Text, dry_run: DryRun = False) -> None:
    """Give a running query another text. What both texts have goes on with its state; what begins again is said."""
    with connected() as fleet:
        typer.echo(fleet.replace(query, text(sql), dry_run=dry_run))


def change(
    changes: Annotated[list[str], typer.Argument(help="Changes such as 'device t1 -> east', or files of them.")],
    no_wait: NoWait = False,
) -> None:
    """Change the topology."""
    with connected() as fleet:
        _say(fleet.change(lines(changes), wait=not no_wait))


def migrate(
    query: Query,
    to: Annotated[str, typer.Option(help="The site they go to.")],
    keys: Annotated[
        list[str] | None, typer.Option(help="A key, a pattern ('S41-*'), or '*' for the rest; repeatable.")
    ] = None,
    keys_file: Annotated[Path | None, typer.Option(help="Keys from a .parquet, .arrow, .csv or text file.")] = None,
    strategy: Annotated[str, typer.Option(help="How; auto: as the operator declares.")] = "auto",
    operator: Annotated[int | None, typer.Option(help="Which operator, if several keep state by key.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would move, and move nothing.")] = False,
) -> None:
    """Move keys of a running query to another site."""
    with connected() as fleet:
        named = keys[0] if keys and len(keys) == 1 and keys_file is None else named_keys(keys, keys_file)
        told = fleet.migrate(query, keys=named, to=to, strategy=strategy, operator=operator, dry_run=dry_run)
        typer.echo(told)


def table(
    name: Annotated[str, typer.Argument(help="The table's name.")],
    file: Annotated[Path, typer.Argument(help="Its rows: .csv, .json (one row per line), .jsonl or .parquet.")],
    whole: Annotated[bool, typer.Option(help="The file has all rows: what it does not have is taken out.")] = False,
) -> None:
    """Put the rows of a file of this machine into a reference table."""
    from godwit.client.handles import RemoteTable
    from godwit.client.row_files import rows_of_file

    rows = rows_of_file(file)
    with connected() as fleet:
        to: RemoteTable = fleet.known_table(name)
        typer.echo(f"{to.replace(rows) if whole else to.upsert(rows)} rows changed")


def history(last: Annotated[int, typer.Option(help="At most this many of the newest (0: all).")] = 50) -> None:
    """What was reconfigured, when and why, as JSON."""
    with connected() as fleet:
        as_json(fleet.history.read()[-last:])


def status() -> None:
    """Rows, times, latencies, clocks, links and state, as JSON."""
    with connected() as fleet:
        as_json(fleet.status())


def results(
    query: Query, follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as results come.")] = False
) -> None:
    """A query's results, a line of JSON per row."""
    with connected() as fleet:
        one = fleet.query(query)
        for row in one.subscribe(from_now=False) if follow else one.results():
            typer.echo(json.dumps(row))


def _say(sent: Any) -> None:
    number = getattr(sent, "number", None)
    typer.echo("done" if number is None else f"queued as command {number}")
