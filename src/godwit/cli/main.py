"""`godwit`: the commands, each in a file of its own that is imported when it is called.

Spark takes seconds to import and start, so only `run`, `demo` and `mobility build` may touch it. A GodwitError ends a
command with its message on stderr and exit code 1; anything else is a bug and keeps its stack trace.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import typer
from typer.core import TyperGroup

from godwit.errors import GodwitError

#: command -> (module in this package, what it holds there, one line of help)
COMMANDS = {
    "demo": ("demo", "demo", "Trains on a ring, a dozen queries, three regions, and the oracle's verdict."),
    "run": ("run", "run", "Run a scenario file and compare its results with the oracle."),
    "explain": ("explain", "explain", "What a query becomes, and what a change of the topology would do to it."),
    "submit": ("ask", "submit", "Submit a query to a running fleet."),
    "withdraw": ("ask", "withdraw", "Stop a query of a running fleet."),
    "alter": ("ask", "alter", "Give a running query other parameters."),
    "change": ("change", "change", "Change the topology of a running fleet."),
    "migrate": ("migrate", "migrate", "Move keys of a running query to another site."),
    "table": ("table", "table", "Put the rows of a file into a reference table of a running fleet."),
    "history": ("history", "history", "What was reconfigured, when, why and how long it took."),
    "status": ("status", "status", "What a fleet is doing: rows, latency, state, links."),
    "check": ("check", "check", "Verify a fleet's folder, and mend what can be computed or delivered again."),
    "serve": ("serve", "serve", "Run a fleet with a REST API, live results and metrics."),
    "token": ("serve", "token", "Make a token for `godwit serve`."),
    "place": ("place", "place", "Find where the operators of a workflow should run."),
    "plan": ("plan", "plan", "Admit queries to a cluster and place what they share."),
    "nexmark": ("nexmark", "nexmark", "Run a query of Nexmark's suite over generated events."),
    "mobility": ("mobility", "app", "Traces of devices that hop between base stations."),
}


class Lazy(TyperGroup):
    """A group whose commands are imported by name, so that a heavy one costs only those who call it."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for name, (module, _, _) in COMMANDS.items() if find_spec(f"godwit.cli.{module}")]

    def get_command(self, ctx: Any, name: str) -> Any:
        if name not in self.list_commands(ctx):
            return None
        module, inside, _ = COMMANDS[name]
        return _command(name, getattr(import_module(f"godwit.cli.{module}"), inside))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Help from the table above: importing every command to print one line of each would take seconds."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][2]) for name in self.list_commands(ctx)])

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except GodwitError as fault:
            typer.echo(f"error: {fault}", err=True)
            raise typer.Exit(1) from None


def _command(name: str, found: typer.Typer | Callable[..., Any]) -> Any:
    if isinstance(found, typer.Typer):
        group = typer.main.get_group(found)
        group.name = name
        return group
    alone = typer.Typer(add_completion=False)
    alone.command(name)(found)
    return typer.main.get_command(alone)


app = typer.Typer(cls=Lazy, no_args_is_help=True, rich_markup_mode=None, add_completion=False)


@app.callback()
def main(
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Say on stderr what is going on."),
) -> None:
    """Continuous SQL queries on Spark that keep running while the ground under them moves."""
    level = logging.INFO if verbose else logging.WARNING
    logging.basicConfig(stream=sys.stderr, level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")


def run() -> None:
    """Entry point."""
    app(prog_name="godwit")
