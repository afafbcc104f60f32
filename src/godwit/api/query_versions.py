"""Earlier versions of queries that were altered: their results stay readable under the query's name."""

from __future__ import annotations

from godwit.api.query_aliases import QueryAliases
from godwit.ids import QueryId
from godwit.model.deployment import Deployment
from godwit.model.plan import Query
from godwit.storage.names import VERSIONS
from godwit.storage.store import Store

#: limits: names that are remembered, versions of one name
KEEP = 100


class QueryVersions:
    """Of each altered query, the executions that have answered it before, oldest first. Kept on disk."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._earlier: dict[QueryId, list[QueryId]] = store.get_document(VERSIONS) or {}

    def of(self, query: QueryId) -> tuple[QueryId, ...]:
        return tuple(self._earlier.get(query, ()))

    def add(self, query: QueryId, execution: QueryId) -> None:
        before = [name for name in self._earlier.get(query, ()) if name != execution]
        known, others = [*before, execution][-KEEP:], [one for one in self._earlier.items() if one[0] != query]
        self._earlier = dict([*others, (query, known)][-KEEP:])  # (in one step: others read meanwhile)
        self._store.put_document(VERSIONS, self._earlier)

    def forget(self, query: QueryId) -> None:
        """Another query begins under the name."""
        if self._earlier.pop(query, None) is not None:
            self._store.put_document(VERSIONS, self._earlier)


def executions(store: Store, query: QueryId, deployment: Deployment) -> list[Query]:
    """Those whose results are read under a query's name, the newest last, as the store says."""
    aliases = QueryAliases(store)
    latest = aliases.runs(query, deployment)
    sink = latest.shape.plan.sink
    earlier = QueryVersions(store).of(query) if sink.key is None else ()
    known = (aliases.execution(name, deployment) for name in earlier if name != latest.id)
    return [*(one for one in known if one is not None and one.shape.plan.sink.written == sink.written), latest]
