"""Queries that are the same in all but their name share one execution; who stands for whom is kept on disk.

A query that is withdrawn while others stand on it goes on running, unseen, until the last of them is withdrawn too. A
query that was withdrawn for good is remembered, so that its results stay readable; the oldest are forgotten.
"""

from __future__ import annotations

from godwit.errors import DeploymentError
from godwit.ids import QueryId
from godwit.model.codec import decode, encode
from godwit.model.deployment import Deployment
from godwit.model.plan import Query
from godwit.storage.names import ALIASES
from godwit.storage.store import Store

#: so many queries that have ended are remembered
KEEP = 100


class QueryAliases:
    """Names of queries, and the executions behind them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        #: a query's name -> the query that runs for it
        self._stands_for: dict[QueryId, QueryId] = {}
        #: withdrawn, but others stand on them
        self._unseen: set[QueryId] = set()
        self._ended: dict[QueryId, Query] = {}
        if (saved := store.get_document(ALIASES)) is not None:
            stands_for, unseen, ended = saved
            self._stands_for, self._unseen = stands_for, set(unseen)
            self._ended = {QueryId(name): decode(query) for name, query in ended.items()}

    def find(self, query: Query, deployment: Deployment) -> QueryId | None:
        """A running query that is the same in all but its name."""
        if query.target is not None:
            return None
        others = (other for other in deployment.queries.values() if not other.internal)
        return next((other.id for other in others if other.identity == query.identity), None)

    def join(self, query: QueryId, runs: QueryId) -> None:
        self._stands_for[query] = runs
        self._save()

    def succeed(self, query: QueryId, runs: QueryId) -> None:
        """From now on the query is answered by an execution that has no other name: its newest version."""
        if runs in self._stands_for:  # it was the same as one that runs already
            runs = self._stands_for.pop(runs)
        else:
            self._unseen.add(runs)
        self.join(query, runs)

    def leave(self, query: QueryId, deployment: Deployment) -> Query | None:
        """The query is withdrawn; returns the execution that can end now, if one can."""
        runs = self._stands_for.pop(query, query)
        if query == runs:
            self._unseen.add(query)
        needed = runs not in self._unseen or runs in self._stands_for.values()
        if not needed:
            self._unseen.discard(runs)
            self._ended.pop(runs, None)
            self._ended[runs] = deployment.queries[runs]
            for old in list(self._ended)[:-KEEP]:
                del self._ended[old]
        self._save()
        return None if needed else deployment.queries[runs]

    def names(self, deployment: Deployment) -> list[QueryId]:
        """Every query that users know of as running."""
        running = {name for name, query in deployment.queries.items() if not query.internal}
        return sorted([*(running - self._unseen), *self._stands_for])

    def runs(self, query: QueryId, deployment: Deployment) -> Query:
        """The execution that answers a query: running, or ended."""
        name = self._stands_for.get(query, query)
        found = deployment.queries.get(name) or self._ended.get(name)
        if found is None:
            msg = f"there is no query '{query}'; running: {', '.join(self.names(deployment)) or 'none'}"
            raise DeploymentError(msg)
        return found

    def _save(self) -> None:
        ended = {name: encode(query) for name, query in self._ended.items()}
        self._store.put_document(ALIASES, [self._stands_for, sorted(self._unseen), ended])
