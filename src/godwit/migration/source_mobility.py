"""Where the keys of sources that move between edges should be processed: a pure policy after Falcon, Section III-F.

A key is processed at the edge its source is attached to, if it stays there. When it turns up under another edge, its
key goes up, to the lowest site above both edges (the root, in a hierarchy of two levels), which sees the rows of both;
only when the source has stayed for a minimum dwell does the key go down to the new edge. So a car that passes many
edges costs one migration up, not one for each edge.

Ping-pong: a source that comes back while its key is on its way up changes nothing, for above both edges the key can be
processed wherever the source is. One that leaves while its key is on its way down makes that useless: it is cancelled.
In both cases rows may come in out of order for a moment, so they are held and sorted by event time.

What the policy sees may come from rows, from a notification of the network (the paper's MEC messages), or from a trace.
Time is an argument.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from godwit.ids import SiteId
from godwit.model.keys import Key

#: so long a source must have stayed under an edge before its key goes there (seconds)
MINIMUM_DWELL = 5.0
#: so long rows of a source that goes back and forth are held, to be sorted (seconds)
REORDER_WITHIN = 0.1


@dataclass(frozen=True)
class Following:
    """How a fleet lets keys follow their sources (`Fleet(mobility=...)`)."""

    dwell: float = MINIMUM_DWELL
    within: float = REORDER_WITHIN
    #: how keys migrate
    strategy: str = "auto"
    #: whose keys do; None: those of all queries
    queries: frozenset[str] | None = None


@dataclass(frozen=True)
class KeyGoes:
    """Migrate a key to a site."""

    key: Key
    to: SiteId


@dataclass(frozen=True)
class StopGoing:
    """Cancel the migration of a key; it stays where it is."""

    key: Key


@dataclass(frozen=True)
class HoldAndSort:
    """Keep rows of a key until a moment, and let them in by event time."""

    key: Key
    until: float


MobilityAdvice = KeyGoes | StopGoing | HoldAndSort


@dataclass(frozen=True)
class Whereabouts:
    """What is known of one key."""

    #: where it is processed, or was before the migration that is under way
    at: SiteId
    #: the edge its source was last seen at, and since when
    edge: SiteId
    since: float
    #: where it is going
    going: SiteId | None = None
    #: the edge it was seen at before
    before: SiteId | None = None


@dataclass
class SourceMobility:
    """One per query and operator. `parents`: site -> the site above it; what has none is a root."""

    parents: Mapping[SiteId, SiteId]
    dwell: float = MINIMUM_DWELL
    within: float = REORDER_WITHIN
    keys: dict[Key, Whereabouts] = field(default_factory=dict)

    def seen(self, key: Key, edge: SiteId, now: float) -> Iterator[MobilityAdvice]:
        """Rows of a key came in at an edge, or somebody says that its source is attached there."""
        known = self.keys.get(key)
        if known is None:
            # Nobody has placed it: the rest, at the root, has taken it.
            self.keys[key] = Whereabouts(self._path(edge)[-1], edge, now)
            return
        if edge == known.edge:
            return
        back = edge == known.before
        known = self.keys[key] = replace(known, edge=edge, since=now, before=known.edge)
        if known.going is not None:
            if self._is_above(known.going, edge):
                yield from [HoldAndSort(key, now + self.within)] if back else []
                return  # up: let it finish, it can be processed there wherever the source is
            yield StopGoing(key)
            known = self.keys[key] = replace(known, going=None)
            yield from [HoldAndSort(key, now + self.within)] if back else []
        if not self._is_above(known.at, edge):
            yield self._send(key, self._meeting(known.at, edge))

    def place(self, key: Key, at: SiteId, edge: SiteId, now: float) -> None:
        """A key that is heard of for the first time, and that is processed at a site already."""
        self.keys[key] = Whereabouts(at, edge, now)

    def put(self, key: Key, at: SiteId) -> None:
        """Somebody else has migrated it."""
        known = self.keys.get(key)
        if known is not None and known.going is None:
            self.keys[key] = replace(known, at=at)

    def tick(self, now: float) -> Iterator[MobilityAdvice]:
        """Time has passed: keys whose sources have stayed go down to them."""
        for key, known in list(self.keys.items()):
            stayed = now - known.since >= self.dwell
            if stayed and known.going is None and known.at != known.edge and self._is_above(known.at, known.edge):
                yield self._send(key, known.edge)

    def arrived(self, key: Key) -> Iterator[MobilityAdvice]:
        """The migration of a key has ended; its source may have gone on since."""
        known = self.keys.get(key)
        if known is None or known.going is None:
            return
        known = self.keys[key] = replace(known, at=known.going, going=None)
        if not self._is_above(known.at, known.edge):
            yield self._send(key, self._meeting(known.at, known.edge))

    def still_going(self, key: Key, to: SiteId) -> None:
        """It could not be cancelled any more: what was asked for will end, and is judged then."""
        known = self.keys[key]
        if known.going is None:
            self.keys[key] = replace(known, going=to)

    def not_moved(self, key: Key, now: float) -> None:
        """What was asked for was refused, or given up by somebody else: it is thought of again after a dwell."""
        self.keys[key] = replace(self.keys[key], going=None, since=now)

    def below(self, site: SiteId) -> dict[SiteId, frozenset[Key]]:
        """All that a site must know: of each of its direct children, which keys are processed there or further down."""
        found: dict[SiteId, set[Key]] = {child: set() for child, parent in self.parents.items() if parent == site}
        for key, known in self.keys.items():
            for passed in self._path(known.at):
                if passed in found:
                    found[passed].add(key)
        return {child: frozenset(keys) for child, keys in found.items()}

    def _send(self, key: Key, to: SiteId) -> KeyGoes:
        self.keys[key] = replace(self.keys[key], going=to)
        return KeyGoes(key, to)

    def _path(self, site: SiteId) -> list[SiteId]:
        """From a site up to its root, both included."""
        path = [site]
        while path[-1] in self.parents:
            path.append(self.parents[path[-1]])
        return path

    def _is_above(self, site: SiteId, edge: SiteId) -> bool:
        """Whether rows that come in at the edge pass the site (the edge itself counts)."""
        return site in self._path(edge)

    def _meeting(self, site: SiteId, edge: SiteId) -> SiteId:
        """The lowest site that sees the rows of both."""
        above = set(self._path(site))
        return next((one for one in self._path(edge) if one in above), self._path(edge)[-1])
