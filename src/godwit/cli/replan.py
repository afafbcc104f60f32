"""`godwit replan` and `godwit replace`: another plan, or another text, for a running query; or what that would do."""

from __future__ import annotations

from typing import Annotated

import typer

from godwit.cli.ask import Folder, Wait, answered, text
from godwit.control.commands import Replace, Replan
from godwit.errors import DeploymentError, SqlError
from godwit.ids import QueryId, StreamId
from godwit.model.plan import Join, Query, Stream
from godwit.observe.loads import measured
from godwit.observe.status import Ledger
from godwit.replan.box import JoinBox
from godwit.replan.explain import explained
from godwit.replan.load import BoxLoad
from godwit.replan.replacement import replacement
from godwit.replan.wishes import PlanWish
from godwit.sql import compile_query
from godwit.storage.epoch_log import Control
from godwit.storage.names import ALIASES
from godwit.storage.open_store import open_store

Name = Annotated[str, typer.Argument(help="The query's name.")]
Order = Annotated[str, typer.Option(help="Like '(b JOIN c) JOIN a', with the names in FROM.")]
Partial = Annotated[
    bool | None, typer.Option("--partial/--no-partial", help="Combine rows before they travel, or where they arrive.")
]
Up = Annotated[list[str] | None, typer.Option(help="A stream whose filters go above the joins; repeatable.")]
Down = Annotated[list[str] | None, typer.Option(help="A stream whose filters go back below them; repeatable.")]
Strategy = Annotated[
    str, typer.Option(help="moving-state, background, parallel-track, pause-drain-resume, stateless-order, or auto.")
]
RunOut = Annotated[bool, typer.Option(help="pause-drain-resume: let windows run out.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
Text = Annotated[str, typer.Argument(help="A file with the new SQL, or the SQL itself.")]


def replan(
    folder: Folder,
    query: Name,
    order: Order = "",
    partial: Partial = None,
    filters_up: Up = None,
    filters_down: Down = None,
    strategy: Strategy = "auto",
    run_out: RunOut = False,
    dry_run: DryRun = False,
    wait: Wait = 60.0,
) -> None:
    """Give a running query another plan; its results go on, each of them once."""
    wish = PlanWish(order, partial, tuple(filters_up or ()), tuple(filters_down or ()))
    if dry_run:
        known, streams = _running(folder, query)
        typer.echo(explained(known, wish, streams, _load(folder, known, streams)))
        return
    answered(folder, Replan(query, order, strategy, run_out, partial, wish.up, wish.down), wait)


def replace(folder: Folder, query: Name, sql: Text, dry_run: DryRun = False, wait: Wait = 60.0) -> None:
    """Give a running query another text. What both texts have goes on with its state; what begins again is said."""
    new = text(sql)
    known, streams = _running(folder, query)
    try:
        typer.echo(replacement(known, compile_query(new, streams, known.id), streams).explained())
    except SqlError:
        if dry_run:
            raise
        # (it may call a function that only the running fleet knows: the fleet has the last word)
    if not dry_run:
        answered(folder, Replace(query, new), wait)


def _load(folder: str, query: Query, streams: dict[StreamId, Stream]) -> BoxLoad | None:
    """As it was measured since the query's plan began; None: it joins nothing, or hardly anything has come."""
    if not any(isinstance(operator, Join) for operator in query.shape.plan.operators):
        return None
    box = JoinBox.of(query.shape.plan, streams)
    return measured(query, box, Ledger(open_store(folder)).flows(query.shape.key), None)


def _running(folder: str, query: str) -> tuple[Query, dict[StreamId, Stream]]:
    """From what the fleet's folder says, without asking the fleet."""
    store = open_store(folder)
    control = Control(store)
    deployment = control.deployment_at(control.last)
    stands_for = (store.get_document(ALIASES) or [{}])[0]
    known = deployment.queries.get(QueryId(stands_for.get(query, query)))
    if known is None:
        msg = f"there is no query '{query}'; running: {', '.join(deployment.queries) or 'none'}"
        raise DeploymentError(msg)
    return known, dict(deployment.streams)
