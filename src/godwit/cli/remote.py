"""Commands to a fleet behind a server: `godwit --server URL submit NAME SQL`, without a folder."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from godwit.cli.ask import text
from godwit.cli.changes import lines
from godwit.cli.choices import KeyStrategy
from godwit.cli.history import Last, Number
from godwit.cli.history import show as show_history
from godwit.cli.migrate import named_keys
from godwit.cli.output import Output, as_json, form
from godwit.cli.replan import Down, DryRun, Order, Partial, Strategy, Text, Up
from godwit.cli.results import Follow
from godwit.cli.status import All
from godwit.cli.status import show as show_status
from godwit.errors import ConfigError

if TYPE_CHECKING:
    from godwit.client import RemoteFleet

Query = Annotated[str, typer.Argument(help="The query's name.")]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Return the command's number at once.")]


def profile(environment: Mapping[str, str]) -> dict[str, str]:
    """What the user's profile says: `server` and `token`; nothing if there is none."""
    home = Path(environment.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    file = home / "godwit" / "profile.yaml"
    if not file.exists():
        return {}
    from godwit.yaml_files import read_yaml

    told = read_yaml(file)
    if not isinstance(told, dict) or not all(isinstance(value, str) for value in told.values()):
        msg = f"{file} is not a profile; it has the lines `server: URL` and `token: TOKEN`"
        raise ConfigError(msg)
    return told


def server_of(flag: str | None, environment: Mapping[str, str]) -> str | None:
    """Which server is meant: the flag, or else the environment, or else the profile."""
    return flag or environment.get("GODWIT_SERVER") or profile(environment).get("server")


def connected() -> RemoteFleet:
    """The server of this call of `godwit` (see `main`)."""
    from godwit.client import RemoteFleet

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
    """Give a running query other literals; the SQL must be the same otherwise."""
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
    strategy: KeyStrategy = "auto",
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


def history(number: Number = None, last: Last = 50, output: Output = "auto") -> None:
    """What was reconfigured, when, why and how long it took."""
    with connected() as fleet:
        show_history(fleet.url, fleet.history.read(), number, last, form(output))


def status(output: Output = "auto", everything: All = False) -> None:
    """Queries, regions, sinks and faults at a glance; with --all also flows, state, keys and links."""
    with connected() as fleet:
        show_status({**fleet.status(), "folder": fleet.url}, form(output), everything)


def explain(
    query: Annotated[str, typer.Argument(help="A file with SQL, the SQL itself, or the name of a query that runs.")],
    change: Annotated[list[str] | None, typer.Option(help="A change ('device t1 -> east'): what would it do?")] = None,
    output: Output = "table",
) -> None:
    """What a query would become, or what one that runs is, where it runs and what its rows wait for."""
    with connected() as fleet:
        running, named = query in fleet.queries, " " not in query.strip() and not Path(query).exists()
        if named and not running:
            known = ", ".join(fleet.queries) or "none"
            msg = f"'{query}' is no query that runs ({known}), no file, and no SQL; check its spelling"
            raise ConfigError(msg)
        told: dict[str, Any] = fleet.query(query).explained() if running else {"plan": fleet.explain(text(query))}
        if change:
            told["change"] = fleet.explain_change(lines(change))
    if form(output) == "json":
        as_json(told)
        return
    typer.echo(told["plan"])
    if told.get("placement"):
        typer.echo("== Placement ==")
        for instance, site in told["placement"].items():
            typer.echo(f"{instance:<32} {site}")
    if told.get("waits_for"):
        typer.echo("\n== Waits for ==\n" + "\n".join(told["waits_for"]))
    if change:
        typer.echo(f"\n== Change ==\n{told['change']}")


def alter_stream(
    stream: Annotated[str, typer.Argument(help="The stream's name.")],
    add: Annotated[str, typer.Argument(help="Its new columns: 'color string, weight double'.")],
) -> None:
    """Add columns to a stream. Queries that run go on; rows without the columns have NULL there."""
    with connected() as fleet:
        told = fleet.alter_stream(stream, add=add)
    columns = ", ".join(f"{one['name']} {one['type']}" for one in told["columns"])
    typer.echo(f"{stream}: {columns}")


def results(query: Query, follow: Follow = False) -> None:
    """A query's results, a line of JSON per row."""
    with connected() as fleet:
        one, none = fleet.query(query), True
        for row in one.subscribe(from_now=False) if follow else one.results():
            typer.echo(json.dumps(row))
            none = False
        if none:
            waits = one.explained()["waits_for"]
            typer.echo("no results yet" + "".join(f"; {why}" for why in waits), err=True)


def _say(sent: Any) -> None:
    number = getattr(sent, "number", None)
    typer.echo("done" if number is None else f"queued as command {number}")
