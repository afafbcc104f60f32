"""A reconfiguration as text, before it happens: the same planning as for real, taken back afterwards."""

from __future__ import annotations

from collections.abc import Iterator

from godwit.control.contexts import DeploymentContext, ToBeDeployed, ToBeUndeployed, ToBeUpdated
from godwit.control.diff import describe as describe_edit
from godwit.control.plan_state import Planner
from godwit.control.redeploy.strategy import ChangeBatch, Redeployment
from godwit.control.stage import Stage
from godwit.ids import Epoch
from godwit.migration.base import describe
from godwit.model.subplan import Connection


def explain(planner: Planner, strategy: Redeployment, batch: ChangeBatch, epoch: Epoch) -> str:
    """Plan the batch, write down what would be published, take it back."""
    with planner.dry_run():
        before = dict(planner.parked())
        stages = [stage for stage in strategy(planner, batch) if not stage.empty]
        parked = {q: why for q, why in planner.parked().items() if before.get(q) != why}
        lines = [f"change: {batch.cause}"]
        for k, stage in enumerate(stages):
            lines += _stage(stage, Epoch(epoch + k), f" (stage {k + 1} of {len(stages)})" if len(stages) > 1 else "")
        if not stages:
            lines.append("nothing needs to change")
        lines += [f"parked: {query}: {why}" for query, why in sorted(parked.items())]
    return "\n".join(lines)


def _stage(stage: Stage, epoch: Epoch, which: str) -> Iterator[str]:
    yield f"epoch {epoch}{which}: affects {', '.join(stage.queries) or 'no query'}"
    yield "placement:" if stage.placement else "placement: as it is"
    for edit in stage.placement:
        yield f"  {describe_edit(edit)}"
    yield "deployment contexts:" if stage.contexts else "deployment contexts: none"
    for context in stage.contexts:
        yield from _context(context)
    yield "state:" if stage.steps else "state: none moves"
    for step in stage.steps:
        yield f"  {describe(step)}"


def _context(context: DeploymentContext) -> Iterator[str]:
    match context:
        case ToBeDeployed(dqp, node, version, operators, connections):
            yield f"  deploy    {dqp} v{version} on {node}: {', '.join(map(str, sorted(operators)))}"
            yield from _wires("with", connections)
        case ToBeUpdated():
            yield f"  update    {context.dqp} v{context.old_version} -> v{context.version} on {context.node}"
            for sign, operators in (("+", context.added), ("-", context.removed)):
                if operators:
                    yield f"              {sign} {', '.join(map(str, sorted(operators)))}"
            yield from _wires("connect", context.connected)
            yield from _wires("disconnect", context.disconnected)
        case ToBeUndeployed(dqp, node, version, hands_over):
            after = f", after handing over {', '.join(map(str, hands_over))}" if hands_over else ""
            yield f"  undeploy  {dqp} v{version} on {node}{after}"


def _wires(verb: str, wires: frozenset[Connection]) -> Iterator[str]:
    for own, peer, node in sorted(wires):
        yield f"              {verb} {own} - {peer} on {node}"
