"""`godwit replan` and `godwit replace`: another plan, or another text, for a running query; or what that would do."""

from __future__ import annotations

from typing import Annotated

import typer

from godwit.cli.ask import Folder, Wait, answered, text
from godwit.errors import SqlError

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
Alone = Annotated[bool, typer.Option("--alone", help="Queries that share its joins keep their plan.")]
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
    alone: Alone = False,
    dry_run: DryRun = False,
    wait: Wait = 60.0,
) -> None:
    """Give a running query another plan; its results go on, each of them once."""
    from godwit.control.commands import Replan
    from godwit.replan.wishes import PlanWish

    wish = PlanWish(order, partial, tuple(filters_up or ()), tuple(filters_down or ()))
    if dry_run:
        from godwit.cli.plan_dry_run import replanned

        typer.echo(replanned(folder, query, wish))
        return
    answered(folder, Replan(query, order, strategy, run_out, partial, wish.up, wish.down, alone), wait)


def replace(folder: Folder, query: Name, sql: Text, dry_run: DryRun = False, wait: Wait = 60.0) -> None:
    """Give a running query another text. What both texts have goes on with its state; what begins again is said."""
    from godwit.cli.plan_dry_run import replaced
    from godwit.control.commands import Replace

    new = text(sql)
    try:
        typer.echo(replaced(folder, query, new))
    except SqlError:
        if dry_run:
            raise
        # (it may call a function that only the running fleet knows: the fleet has the last word)
    if not dry_run:
        answered(folder, Replace(query, new), wait)
