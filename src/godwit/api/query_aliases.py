"""What runs, or ran, under a query's name: itself or, once it was altered, its newest version. Kept on disk.

A query that was withdrawn is remembered, so that its results stay readable; the oldest are forgotten.
"""

from __future__ import annotations

from typing import Any

from godwit.errors import DeploymentError
from godwit.ids import QueryId
from godwit.model.codec import decode, encode
from godwit.model.deployment import Deployment
from godwit.model.plan import Query
from godwit.storage.names import ALIASES
from godwit.storage.store import Store

#: limit of ended queries that are remembered
KEEP = 100


class QueryAliases:
    """Names of queries, and the executions behind them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        #: a query's name -> its newest version
        self._stands_for: dict[QueryId, QueryId] = {}
        #: the same of versions that may begin with the next epoch: they count from when they are there
        self._coming: dict[QueryId, QueryId] = {}
        self._ended: dict[QueryId, Query] = {}
        #: the same as they are written: each is encoded once
        self._written: dict[QueryId, Any] = {}
        if (saved := store.get_document(ALIASES)) is not None:
            self._stands_for, self._written = saved
            self._ended = {QueryId(name): decode(query) for name, query in self._written.items()}

    def expect(self, query: QueryId, runs: QueryId | None) -> None:
        """The query is answered by another execution as soon as an epoch has it; None: it will not."""
        if runs is None:
            self._coming.pop(query, None)
        else:
            self._coming[query] = runs

    def succeed(self, query: QueryId, runs: QueryId) -> None:
        """From now on the query is answered by an execution that has no other name: its newest version."""
        self._stands_for[query] = runs
        self.expect(query, None)
        self._save()

    def keep(self, ended: Query) -> None:
        """Remember an execution that ends, so that its results stay readable."""
        self._drop(ended.id)
        self._ended[ended.id], self._written[ended.id] = ended, encode(ended)
        for old in list(self._ended)[:-KEEP]:
            self._drop(old)
        self._save()

    def name_of(self, execution: QueryId) -> QueryId:
        """The name that users have for an execution."""
        return next((name for name, runs in self._stands_for.items() if runs == execution), execution)

    def execution(self, name: QueryId, deployment: Deployment) -> Query | None:
        """An execution by its own name, running or ended."""
        return deployment.queries.get(name) or self._ended.get(name)

    def leave(self, query: QueryId, deployment: Deployment) -> Query:
        """The query is withdrawn; returns the execution that ends."""
        runs = self.runs(query, deployment)
        self.keep(runs)
        return runs

    def names(self, deployment: Deployment) -> list[QueryId]:
        """Every query that users know of as running."""
        running = {name for name, query in deployment.queries.items() if not query.internal}
        newest = self._newest(deployment)
        versions = {name for name, runs in newest.items() if runs in running}
        return sorted({*(running - {*newest.values(), *self._stands_for.values()}), *versions})

    def runs(self, query: QueryId, deployment: Deployment) -> Query:
        """The execution that answers a query: running, or ended."""
        own = deployment.queries.get(query)
        name = query if own is not None and not own.internal else self._newest(deployment).get(query, query)
        found = deployment.queries.get(name) or self._ended.get(name)
        if found is None:
            msg = f"there is no query '{query}'; running: {', '.join(self.names(deployment)) or 'none'}"
            raise DeploymentError(msg)
        return found

    def _newest(self, deployment: Deployment) -> dict[QueryId, QueryId]:
        begun = {name: runs for name, runs in list(self._coming.items()) if runs in deployment.queries}
        return {**self._stands_for, **begun}

    def _save(self) -> None:
        self._store.put_document(ALIASES, [self._stands_for, self._written])

    def _drop(self, ended: QueryId) -> None:
        self._ended.pop(ended, None)
        self._written.pop(ended, None)
