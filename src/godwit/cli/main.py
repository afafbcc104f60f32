"""`godwit`: the commands, each in a file of its own that is imported when it is called.

Spark takes seconds to import and start, so only `run`, `demo` and `mobility build` may touch it. A GodwitError ends a
command with its message on stderr and exit code 1; anything else is a bug and keeps its stack trace.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from godwit.cli.logs import set_up_logging
from godwit.errors import GodwitError

#: command -> (module in this package, what it holds there, one line of help)
COMMANDS = {
    "demo": ("demo", "demo", "Run trains on a ring, a dozen queries, three regions, and compare with plain Spark."),
    "run": ("run", "run", "Run a scenario file and compare its results with the oracle."),
    "explain": ("explain", "explain", "Show a query's plan and places, and what a change of the topology would do."),
    "submit": ("ask", "submit", "Submit a query to a running fleet."),
    "withdraw": ("ask", "withdraw", "Stop a query of a running fleet."),
    "alter": ("ask", "alter", "Give a running query other literals."),
    "alter-stream": ("ask", "alter_stream", "Add columns to a stream."),
    "replan": ("replan", "replan", "Give a running query another plan."),
    "replace": ("replan", "replace", "Give a running query another SQL text; operators that both have go on."),
    "change": ("change", "change", "Change the topology of a running fleet."),
    "migrate": ("migrate", "migrate", "Move keys of a running query to another site."),
    "table": ("table", "table", "Put the rows of a file into a reference table of a running fleet."),
    "history": ("history", "history", "List what was reconfigured, when, why and how long it took."),
    "status": ("status", "status", "Queries, regions, sinks and faults of a fleet at a glance."),
    "results": ("results", "results", "Print the results of a query behind a server (--server)."),
    "init": ("init", "init", "Write a commented project to start from."),
    "check": ("check", "check", "Verify every record and file of a fleet, and repair what can be computed again."),
    "coordinator": ("processes", "coordinator", "Run the control plane as a process, without Spark."),
    "region": ("processes", "region", "Run one region as a process with a Spark of its own."),
    "forget-region": ("processes", "forget_region", "Write off a region whose process is gone for good."),
    "up": ("up", "up", "Start the processes of a fleet file on this machine."),
    "down": ("up", "down", "Stop the processes of a fleet file."),
    "ps": ("up", "ps", "List the processes of a fleet file: where they listen, their epoch and memory."),
    "serve": ("serve", "serve", "Run a fleet with a REST API, live results, metrics and a page."),
    "token": ("serve", "token", "Make a token for `godwit serve`."),
    "place": ("place", "place", "Find where the operators of a workflow should run."),
    "plan": ("plan", "plan", "Admit queries to a cluster and place what they share."),
    "export": ("export", "export", "Write a savepoint: a copy of a fleet that is not running."),
    "import": ("export", "import_", "Make a fleet from a savepoint."),
    "nexmark": ("nexmark", "nexmark", "Run a query of Nexmark's suite over generated events."),
    "mobility": ("mobility", "app", "Build or make up traces of devices that hop between base stations."),
}


#: commands that a server takes as well
REMOTE: tuple[str, ...] = ("submit", "withdraw", "alter", "change", "migrate", "replan", "replace", "table")
REMOTE += ("history", "status", "results", "explain", "alter-stream")


class Lazy(TyperGroup):
    """A group whose commands are imported by name, so that a heavy one costs only those who call it."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Of a command that a server takes as well: the server's, if one is named and no folder is."""
        if args and args[0] in REMOTE and self._is_remote(ctx.params.get("server"), args[1:]):
            from godwit.cli import remote

            return args[0], _command(args[0], getattr(remote, args[0].replace("-", "_"))), args[1:]
        if args and args[0] not in COMMANDS and (near := get_close_matches(args[0], COMMANDS, 1)):
            ctx.fail(f"there is no command '{args[0]}'; did you mean '{near[0]}'?")
        return super().resolve_command(ctx, args)

    @staticmethod
    def _is_remote(flag: str | None, args: list[str]) -> bool:
        from godwit.cli.remote import server_of

        if flag is not None:
            os.environ["GODWIT_SERVER"] = flag
            return True
        folder = next((arg for arg in args if not arg.startswith("-")), None)
        return not (folder and ("://" in folder or Path(folder).is_dir())) and server_of(None, os.environ) is not None

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for name, (module, _, _) in COMMANDS.items() if find_spec(f"godwit.cli.{module}")]

    def get_command(self, ctx: Any, name: str) -> Any:
        if name not in self.list_commands(ctx):
            return None
        module, inside, about = COMMANDS[name]
        if _offered(name):
            return _command(name, _described(about))
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


def _offered(name: str) -> bool:
    """Whether a shell only wants to know what there is: for that no command need be imported."""
    typed = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    return "_GODWIT_COMPLETE" in os.environ and name not in typed.split()


def _described(about: str) -> Callable[[], None]:
    def nothing() -> None: ...

    nothing.__doc__ = about
    return nothing


def _command(name: str, found: typer.Typer | Callable[..., Any]) -> Any:
    if isinstance(found, typer.Typer):
        group = typer.main.get_group(found)
        group.name = name
        return group
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name)(found)
    return typer.main.get_command(alone)


app = typer.Typer(cls=Lazy, no_args_is_help=True, rich_markup_mode=None)  # (with --install-completion)


@app.callback()
def main(
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Log to stderr what is going on."),
    log: str = typer.Option("text", "--log", help="Format of the log: text, or json (an object per line)."),
    server: str = typer.Option(
        None,
        "--server",
        help="Address of a server, such as http://127.0.0.1:8321, to which commands go. "
        "Default: GODWIT_SERVER, else `server:` in ~/.config/godwit/profile.yaml.",
    ),
) -> None:
    """Continuous SQL queries on Spark that keep running, exactly once, while their topology changes.

    Begin with `godwit init` and `godwit run`, or with `godwit demo`.
    """
    set_up_logging(log, logging.INFO if verbose else logging.WARNING)


def run() -> None:
    """Entry point."""
    app(prog_name="godwit")
