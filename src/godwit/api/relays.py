"""Over which sites operators' rows go, relays among them, where admission has chosen: ways.json, by query.

Placements are in the deployment; the ways between them are not, so they are kept here over a restart.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from godwit.ids import QueryId, SiteId
from godwit.placement.rules.base import HintKey, Ways
from godwit.storage.names import RELAYS
from godwit.storage.store import Store


class WaysFile:
    """One per fleet; callers hold its lock."""

    def __init__(self, store: Store) -> None:
        self._store = store
        #: query -> (operator, site of its devices or None, all sites of the way)
        self._known: dict[QueryId, list[tuple[int, SiteId | None, tuple[SiteId, ...]]]] = {}
        if (stored := store.get_document(RELAYS)) is not None:
            self._known = {QueryId(q): [(o, at, tuple(way)) for o, at, way in ways] for q, ways in stored.items()}

    def of(self, query: QueryId) -> dict[HintKey, Ways]:
        found: dict[HintKey, dict[tuple[SiteId, SiteId], tuple[SiteId, ...]]] = {}
        for operator, at, way in self._known.get(query, ()):
            found.setdefault((query, operator, at), {})[way[0], way[-1]] = way
        return dict(found)

    def keep(self, ways: Mapping[HintKey, Ways]) -> None:
        for query in {hint[0] for hint in ways}:
            mine = ((hint, way) for hint, known in ways.items() if hint[0] == query for way in known.values())
            self._known[query] = [(operator, at, way) for (_, operator, at), way in mine]
        if ways:
            self._save()

    def drop(self, running: Collection[QueryId]) -> None:
        """Forget the ways of queries that have ended."""
        ended = [query for query in self._known if query not in running]
        for query in ended:
            del self._known[query]
        if ended:
            self._save()

    def _save(self) -> None:
        self._store.put_document(RELAYS, self._known)
