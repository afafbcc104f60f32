"""`godwit replan`: join a running query's streams in another order, or say what that would do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from godwit.cli.ask import Folder, Wait, answered
from godwit.control.commands import Replan
from godwit.errors import DeploymentError
from godwit.ids import QueryId
from godwit.replan.explain import explained
from godwit.storage.epoch_log import Control
from godwit.storage.names import ALIASES
from godwit.storage.store import Store


def replan(
    folder: Folder,
    query: Annotated[str, typer.Argument(help="The query's name.")],
    order: Annotated[str, typer.Option(help="Like '(b JOIN c) JOIN a', with the names in FROM.")],
    strategy: Annotated[
        str,
        typer.Option(help="moving-state, background, parallel-track, pause-drain-resume, stateless-order, or auto."),
    ] = "auto",
    run_out: Annotated[bool, typer.Option(help="pause-drain-resume: let windows run out.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    wait: Wait = 60.0,
) -> None:
    """Join the streams of a running query in another order; its results go on, each of them once."""
    if dry_run:
        typer.echo(_explained(folder, query, order))
        return
    answered(folder, Replan(query, order, strategy, run_out), wait)


def _explained(folder: Path, query: str, order: str) -> str:
    """From what the fleet's folder says, without asking the fleet."""
    store = Store.local(folder)
    control = Control(store)
    deployment = control.deployment_at(control.last)
    stands_for = (store.get_document(ALIASES) or [{}])[0]
    known = deployment.queries.get(QueryId(stands_for.get(query, query)))
    if known is None:
        msg = f"there is no query '{query}'; running: {', '.join(deployment.queries) or 'none'}"
        raise DeploymentError(msg)
    return explained(known, order, deployment.streams)
