"""What `godwit replan` and `godwit replace` would do, from a fleet's folder alone."""

from __future__ import annotations

from godwit.errors import DeploymentError
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


def replanned(folder: str, query: str, wish: PlanWish) -> str:
    known, streams = _running(folder, query)
    return explained(known, wish, streams, _load(folder, known, streams))


def replaced(folder: str, query: str, sql: str) -> str:
    known, streams = _running(folder, query)
    return replacement(known, compile_query(sql, streams, known.id), streams).explained()


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
