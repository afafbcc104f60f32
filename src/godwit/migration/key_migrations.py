"""Migrations of keys that are under way: which phase each is in, what starts next, what waits and why.

A pure state machine beside the coordinator. It asks for route changes (`RouteKeys`), which the coordinator publishes
as epochs, and hears of epochs that are published and in force, and of state that has come:

    queued --no other has its keys--> phase --published--> phase that awaits --heard--> next phase ... --> done

Migrations of one operator run side by side if their keys are disjoint. One whose keys overlap waits for the other.
Phases that can be carried out while an epoch is under way are all in the next one. Listed keys that begin together and
go the same way by the same strategy go as one: a thousand keys then cost the regions one hand-over, not a thousand.
Only a copy can be cancelled: after the switch the keys are where they were sent, and would have to be sent back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from godwit.errors import DeploymentError
from godwit.ids import Epoch, QueryId, RegionId
from godwit.migration import hot_backup
from godwit.migration.hot_backup import AGAIN, taken_over
from godwit.migration.phases import REPLICA, Await, Cancel, Copy, Phase, Proceed, Release, Switch, phases
from godwit.model.keys import Key, KeySet, Listed, overlap
from godwit.protocol.handover import Migration

#: limit of ended migrations that are remembered
KEPT = 100


@dataclass(frozen=True)
class RouteKeys:
    """Carry out one phase of a migration of keys."""

    number: int
    query: QueryId
    operator: int
    keys: KeySet
    #: where they go
    target: RegionId
    site: str
    phase: Phase
    #: whether a copy is there already; of which generations; and whether rows go to both
    shadow: bool = False
    since: int = 0
    dual: bool = False

    @property
    def cause(self) -> str:
        return f"keys {self.keys} of {self.query}/{self.operator} to {self.site}: {type(self.phase).__name__.lower()}"


@dataclass(frozen=True)
class KeyMigration:
    """One migration and how far it is."""

    number: int
    query: QueryId
    operator: int
    keys: KeySet
    target: RegionId
    site: str
    strategy: str
    phases: tuple[Phase, ...]
    #: the phase that comes next, or that it awaits the end of
    at: int = 0
    #: asked for, and not published yet
    asked: bool = False
    #: what the last phase sent and has not come yet
    due: frozenset[Migration] = frozenset()
    #: epochs of its phases
    epochs: tuple[Epoch, ...] = ()
    #: the copies that the destination has
    copies: tuple[Migration, ...] = ()
    #: why it has not begun
    reason: str = ""
    #: it does not begin before it is released
    held: bool = False
    #: of a replica: how often it was refreshed since everything was copied
    refreshes: int = 0
    #: the migrations that go as this one
    members: tuple[KeyMigration, ...] = ()

    @property
    def phase(self) -> Phase | None:
        return self.phases[self.at] if self.at < len(self.phases) else None

    @property
    def replica(self) -> bool:
        """Whether it only keeps a copy, which goes when the keys go elsewhere."""
        return self.strategy == REPLICA

    @property
    def at_rest(self) -> bool:
        """Whether nothing of it is under way."""
        return self.phase == Await("interval")

    @property
    def copying(self) -> bool:
        """Whether the source still answers, so that it can be cancelled."""
        switched = any(isinstance(phase, Switch) for phase in self.phases[: self.at])
        asked = self.asked and isinstance(self.phase, Switch)
        return bool(self.copies) and not switched and not asked


#: what of a migration's keys is elsewhere, and where each part is
Split = Callable[[KeyMigration], list[tuple[RegionId, KeySet]]]


@dataclass
class KeyMigrations:
    """All that are queued or under way, and the last that ended, with what became of them."""

    number: int = 0
    queued: list[KeyMigration] = field(default_factory=list)
    active: dict[int, KeyMigration] = field(default_factory=dict)
    ended: list[tuple[KeyMigration, str]] = field(default_factory=list)
    #: how many were carried out
    done: int = 0

    @property
    def busy(self) -> bool:
        """Whether any is queued or under way."""
        return bool(self.queued) or any(not (one.replica and one.at_rest) for one in self.active.values())

    @property
    def replicas(self) -> bool:
        """Whether any is to be refreshed now and then."""
        return any(one.replica for one in self.active.values())

    # --- asking

    def ask(
        self,
        query: QueryId,
        operator: int,
        keys: KeySet,
        target: RegionId,
        site: str,
        strategy: str,
        held: bool = False,
    ) -> KeyMigration:
        """Queue a migration; `strategy` is one of `phases.KEY_STRATEGIES`, already chosen for the operator. `held`: it
        begins when it is released."""
        why = "it begins between two windows, or with others" if held else ""
        place = (query, operator, keys, target, site)
        one = KeyMigration(self._next(), *place, strategy, phases(strategy), reason=why, held=held)
        self.queued.append(one)
        return one

    @property
    def held(self) -> set[tuple[QueryId, int]]:
        """Operators whose migrations wait to be released."""
        return {(one.query, one.operator) for one in self.queued if one.held}

    def migrates(self, query: QueryId) -> bool:
        """Whether keys of a query migrate, or wait for it, or have a replica."""
        return any(one.query == query for one in (*self.active.values(), *self.queued))

    def release(self, query: QueryId, operator: int) -> None:
        """Those of an operator may begin now, together."""
        mine = (query, operator)
        self.queued = [replace(o, held=False) if (o.query, o.operator) == mine else o for o in self.queued]

    def cancel(self, number: int) -> None:
        """Give a migration up, if its source still answers."""
        if any(one.number == number for one in self.queued):
            self.queued = [one for one in self.queued if one.number != number]
            return
        one = self.active.get(number) or self._leader(number)
        if one is None or not one.copying:
            msg = f"migration {number} cannot be cancelled: " + (
                "there is none under way" if one is None else "its keys are switched over; migrate them back"
            )
            raise DeploymentError(msg)
        # Those that go together with it are copied again without it; the number of this copy is not used again.
        why = f"migration {number}, with which it went, was cancelled"
        for other in (member for member in one.members if member.number != number):
            again = self._next() if other.number == one.number else other.number
            self.queued.append(replace(other, number=again, reason=why))
        given_up = replace(one, phases=(*one.phases[: one.at], Cancel()), asked=False, due=frozenset())
        mine = tuple(member for member in one.members if member.number == number)
        self.active[one.number] = replace(given_up, members=mine)

    def _leader(self, number: int) -> KeyMigration | None:
        """The migration as which another one goes."""
        found = (one for one in self.active.values() if any(member.number == number for member in one.members))
        return next(found, None)

    def give_up(self, number: int, query: QueryId, operator: int, keys: KeySet, target: RegionId, dual: bool) -> None:
        """A copy that an earlier process had opened, and that nobody will complete."""
        copy = Migration(
            Epoch(0), query, operator, RegionId(""), target, keys=keys, number=number, copy=True, dual=dual
        )
        self.active[number] = KeyMigration(
            number, query, operator, keys, target, "", "cancelled", (Cancel(),), copies=(copy,)
        )

    def let_go(self, move: Migration) -> None:
        """State that an earlier process had regions hold back, and that nobody else will release."""
        place = (move.query, move.operator, move.keys, move.target, move.to_site)
        self.active[move.number] = KeyMigration(move.number, *place, "released", (Release(),))

    def forget(self, query: QueryId) -> None:
        """The query is gone."""
        self.queued = [one for one in self.queued if one.query != query]
        self.active = {number: one for number, one in self.active.items() if one.query != query}

    # --- what is to be done

    def changes(self, split: Split) -> Iterator[RouteKeys]:
        """The phases that can be carried out now; each is asked for once. `split`: which parts of the keys are to be
        moved, each from one place, as things are when a migration begins."""
        self._start(split)
        for one in list(self.active.values()):
            phase = one.phase
            if phase is not None and not isinstance(phase, Await) and not one.asked:
                self.active[one.number] = replace(one, asked=True)
                anew = isinstance(phase, Copy) and not phase.refresh
                since = max((copy.epoch for copy in one.copies if not anew), default=Epoch(0))
                known = (bool(one.copies), since, any(copy.dual for copy in one.copies))
                place = (one.query, one.operator, one.keys, one.target, one.site)
                yield RouteKeys(one.number, *place, phase, *known)

    def _start(self, split: Split) -> None:
        waiting: list[KeyMigration] = []
        begun: dict[tuple[object, ...], list[KeyMigration]] = {}
        for one in self.queued:
            if one.held:
                waiting.append(one)
                continue
            before = (*self.active.values(), *waiting, *(b for those in begun.values() for b in those))
            others = [o for o in before if _clash(o, one)]
            for bare in [o for o in others if o.replica and o.at_rest and not o.copies and o.number in self.active]:
                self._end(bare, "cancelled")  # there was nothing to copy
                others.remove(bare)
            if others and others[0].replica and others[0].number in self.active and self._takes_over(others[0], one):
                continue
            if others:
                waiting.append(replace(one, reason=f"migration {others[0].number} has keys of it under way"))
                continue
            parts = split(one)
            if not parts:
                self._end(one, "all there already")
            for source, part in parts:
                number = one.number if part is parts[0][1] else self._next()
                alike = (one.query, one.operator, source, one.target, one.site, one.strategy)
                way = alike if isinstance(part, Listed) else (number,)
                begun.setdefault(way, []).append(replace(one, number=number, keys=part, reason=""))
        self.queued = waiting
        for those in begun.values():
            self.active[those[0].number] = _as_one(those)

    def _takes_over(self, replica: KeyMigration, one: KeyMigration) -> bool:
        """Whether a migration goes on from a replica of its keys. One that is of no use to it is given up first."""
        fits = (replica.keys, replica.target, "hot-backup") == (one.keys, one.target, one.strategy)
        if not fits and replica.copies and not isinstance(replica.phase, Cancel):
            self.cancel(replica.number)
        if not fits or not replica.at_rest:
            return False
        goes = replace(replica, strategy=one.strategy, site=one.site, phases=tuple(taken_over()), at=0)
        self.active[replica.number] = replace(goes, members=(replace(one, reason=""),))
        return True

    def _next(self) -> int:
        self.number += 1
        return self.number

    # --- what is heard

    def published(self, epoch: Epoch, numbers: Iterable[int], moves: Iterable[Migration]) -> None:
        """An epoch has brought phases of these migrations, and with them what regions send."""
        sent = list(moves)
        for number in numbers:
            one = self.active.get(number)
            if one is None or not one.asked:
                continue
            mine = [move for move in sent if move.number == number]
            copied = tuple(m for m in mine if m.copy) if isinstance(one.phase, Copy) else ()
            copies = (copied or one.copies) if one.replica else (*one.copies, *copied)
            sent_now = frozenset(move for move in mine if not move.cancel)
            due = one.due if isinstance(one.phase, Release) else sent_now
            epochs = (epoch,) if one.replica else (*one.epochs, epoch)
            one = replace(one, at=one.at + 1, asked=False, due=due, epochs=epochs, copies=copies)
            if not mine and isinstance(one.phases[one.at - 1], Copy | Switch):
                # Nothing to move; what was stopped for it must go on all the same.
                left = [k for k, phase in enumerate(one.phases) if k >= one.at and isinstance(phase, Proceed)]
                one = replace(one, at=left[0] if left else len(one.phases))
            self._go_on(one)

    def arrived(self, move: Migration) -> None:
        """What a phase sent has come."""
        one = self.active.get(move.number)
        if one is not None and move in one.due:
            one = replace(one, due=one.due - {move})
            self.active[one.number] = one
            self._go_on(one)

    def in_force(self, epoch: Epoch) -> None:
        """Every region works under an epoch."""
        for one in list(self.active.values()):
            if one.phase == Await("regions") and not one.asked and one.epochs and one.epochs[-1] <= epoch:
                self._go_on(replace(one, at=one.at + 1))

    def refresh(self) -> None:
        """It is time to send replicas what has changed."""
        for one in list(self.active.values()):
            if one.at_rest:
                whole = one.refreshes >= hot_backup.WHOLE_AFTER
                at, count = (0, 0) if whole else (one.at + 1, one.refreshes + 1)
                self.active[one.number] = replace(one, at=at, refreshes=count)

    def _go_on(self, one: KeyMigration) -> None:
        if one.phase == Await("state") and not one.due:
            one = replace(one, at=one.at + 1)
        if one.phase is None and one.replica and not isinstance(one.phases[-1], Cancel):
            one = replace(one, at=AGAIN)
        self.active[one.number] = one
        if one.phase is None:
            cancelled = isinstance(one.phases[-1], Cancel)
            self._end(one, "cancelled" if cancelled else "done")

    def _end(self, one: KeyMigration, outcome: str) -> None:
        self.active.pop(one.number, None)
        each = [replace(member, at=one.at, epochs=one.epochs) for member in one.members] or [one]
        self.ended = [*self.ended[-KEPT:], *((member, outcome) for member in each)]
        self.done += len(each) if outcome == "done" else 0


def _as_one(those: list[KeyMigration]) -> KeyMigration:
    """Migrations of listed keys that go the same way, under the number of the first."""
    if len(those) == 1:
        return those[0]
    keys = frozenset[Key]().union(*(one.keys.keys for one in those if isinstance(one.keys, Listed)))
    return replace(those[0], keys=Listed(keys), members=tuple(those))


def _clash(one: KeyMigration, other: KeyMigration) -> bool:
    return (one.query, one.operator) == (other.query, other.operator) and overlap(one.keys, other.keys)
