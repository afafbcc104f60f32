"""Rates and selectivities of a query's joins, as measured: what orders are costed by."""

from __future__ import annotations

from godwit.model.plan import Query
from godwit.observe.flows import Flows
from godwit.replan.box import JoinBox
from godwit.replan.estimate import counted, estimate, links
from godwit.replan.load import BoxLoad


def measured(query: Query, box: JoinBox | None, flows: Flows, before: BoxLoad | None) -> BoxLoad | None:
    """The load of a query's joins, from what has flowed through them; None: it has none, or too little has."""
    if box is None or flows.seconds <= 0:
        return None
    leaves, joins = counted(box, flows.taken, flows.made(query.shape.plan, box.root))
    if not all(leaves.values()):
        return None
    return estimate(before, leaves, joins, links(box), flows.seconds, batch_s=flows.batch_s)
