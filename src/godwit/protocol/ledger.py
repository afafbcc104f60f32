"""What one region knows of the moves of one shape's instances, and what follows: when it sends, what it waits for.

Pure; the runtime and the simulator both run it. The rules are told in `handover.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from godwit.ids import Epoch, QueryId, RegionId
from godwit.model.deployment import Deployment
from godwit.model.keys import Key, KeySet, contains, overlap
from godwit.model.plan import Join, Plan
from godwit.protocol.handover import Answered, Instance, Migration, instance_of, rows_wait, stands_apart
from godwit.protocol.ownership import History, Owned, generation, generations, trimmed
from godwit.protocol.shadows import Shadow, ShadowKey, shadow_key, shadow_of
from godwit.protocol.watermarks import FOREVER, NEVER


@dataclass
class MigrationLedger:
    """The moves of one shape's instances, as one region sees them."""

    region: RegionId
    plan: Plan
    #: the epoch this region works under
    epoch: Epoch
    #: (region, operator) -> up to which epoch that operator is drained there
    drained: dict[tuple[RegionId, int], Epoch] = field(default_factory=dict)
    #: this region has to send these
    outgoing: list[Migration] = field(default_factory=list)
    #: this region waits for these
    incoming: list[Migration] = field(default_factory=list)
    #: who owns keys of an instance and did: only instances that ever moved, and no more of their past than rows that
    #: may still come can ask for (`cut`)
    owners: dict[Instance, History] = field(default_factory=dict)
    #: since when queries that had been parked go on: until everybody has let out their rows, their clocks are held
    resumed: dict[QueryId, Epoch] = field(default_factory=dict)
    #: copies of other regions' state that are built up here
    shadows: dict[ShadowKey, Shadow] = field(default_factory=dict)
    #: versions of queries that leave their state to others -> the epoch at which they ended; the deployment says it
    ends: dict[QueryId, Epoch] = field(default_factory=dict)
    #: moves whose state others have asked for; forgotten by a restart, it is sent all the same
    wanted: set[Migration] = field(default_factory=set)

    #: keys that came from owners whose watermark was ahead of the one here: until that has caught up, their rows that
    #: lie between the two are answered already
    answered: dict[Instance, Answered] = field(default_factory=dict)

    # --- epochs

    def adopt(self, epoch: Epoch, moves: Iterable[Migration]) -> None:
        """Work under a new epoch from now on."""
        for move in sorted(moves):
            if move.release:
                continue  # the epoch itself says it
            if move.leaves:
                # Everybody says how far it is drained, as if the query went on after a halt.
                self.resumed[move.query] = move.epoch
                self.outgoing += [move] if move.source == self.region else []
                continue
            owner = move.source if move.copy else move.target
            self.owners[move.instance] = (
                *self.owners.get(move.instance, ()),
                Owned(move.epoch, owner, move.keys, move.copy and not move.cancel),
            )
            if move.target == self.region and (move.shadow or move.copy):
                self._shadow(move)
            if move.cancel:
                self._cancel(move)
                continue
            if move.source == self.region and not (move.inherits or move.sink):
                self.outgoing.append(move)
            if move.target == self.region:
                self.incoming.append(move)
        self.epoch = epoch

    def _shadow(self, move: Migration) -> None:
        key = shadow_key(move)
        if not move.shadow:
            self.shadows[key] = Shadow(*key, move.epoch, move.keys, move.dual)
        elif key in self.shadows and (move.cancel or not move.copy):
            self.shadows[key] = self.shadows[key].ending(move.epoch, dropped=move.cancel)

    def _cancel(self, move: Migration) -> None:
        def given_up(one: Migration) -> bool:
            return one.copy and shadow_key(one) == shadow_key(move)

        self.outgoing[:] = [one for one in self.outgoing if not given_up(one)]
        self.incoming[:] = [one for one in self.incoming if not given_up(one)]

    def copied(self, query: QueryId, operator: int, key: Key, epoch: Epoch) -> Shadow | None:
        """The shadow that a row belongs to, if it is a copy: what it does to the state counts, what comes of it is the
        source's to say (the emission filter)."""
        return shadow_of(self.shadows.values(), instance_of(query, operator), key, epoch)

    # --- markers

    def hear(self, region: RegionId, markers: Mapping[int, Epoch]) -> None:
        """Another region's (or our own) commit says how far its operators are drained."""
        for operator, epoch in markers.items():
            key = (region, operator)
            self.drained[key] = max(self.drained.get(key, Epoch(0)), epoch)

    def hears_of(self, region: RegionId, markers: Mapping[int, Epoch]) -> bool:
        """Whether it would learn anything by that."""
        return any(epoch > self.drained.get((region, operator), 0) for operator, epoch in markers.items())

    def markers(self, regions: Iterable[RegionId]) -> dict[int, Epoch]:
        """How far each operator is drained here; goes into the next commit. `regions`: all that may still send rows."""
        regions = set(regions) | {self.region}
        if self._all_drained(regions):
            return dict.fromkeys(range(len(self.plan.operators)), self.epoch)
        own: dict[int, Epoch] = {}
        for index, operator in enumerate(self.plan.operators):
            feeds = [
                own[child] if region == self.region else self.drained.get((region, child), Epoch(0))
                for child in operator.inputs
                for region in regions
            ]
            # Rows that wait here for state have not come out yet.
            mine = [move for move in self.incoming if move.operator == index]
            waited = [move.epoch for move in mine if self._strict(move)]
            # Nor have results of state that is still to come: the operators above must not leave before.
            waited += [Epoch(self.ends[move.query] - 1) for move in mine if self._holds_up(move)]
            own[index] = min([self.epoch, *feeds, *waited])
        return own

    def _all_drained(self, regions: Iterable[RegionId]) -> bool:
        """Whether nobody waits for anything, as is nearly always so."""
        drained, epoch = self.drained, self.epoch
        places = range(len(self.plan.operators) - 1)  # (nobody reads the last one)
        others = (region for region in regions if region != self.region)
        return not self.incoming and all(drained.get((r, k), 0) >= epoch for r in others for k in places)

    def _holds_up(self, move: Migration) -> bool:
        moved = not (move.copy or move.number or move.inherits)
        return moved and move.epoch <= self.ends.get(move.query, Epoch(0))

    def waits(self, move: Migration) -> bool:
        """Whether rows wait here for the state of a move, apart from the rest."""
        return rows_wait(move, self.plan.operators[move.operator])

    def _strict(self, move: Migration) -> bool:
        """Whether they must: where it was asked for, where state cannot be merged later, or where order matters."""
        operator = self.plan.operators[move.operator]
        ordered = bool(move.number) and operator.needs_order
        return not move.copy and (move.wait or operator.late_state != "merge" or ordered)

    # --- state that goes and comes

    def ready(self, markers: Mapping[int, Epoch]) -> list[Migration]:
        """The moves whose state can be sent now, oldest first. `markers`: our own, after this micro-batch."""
        found: list[Migration] = []
        blocked: list[Migration] = []
        unasked = False
        for move in self.outgoing:
            # What leaves its query goes behind what the same epoch brings here.
            waiting = any(m.epoch < move.goes_before and not m.copy and _together(m, move) for m in self.incoming)
            waiting = waiting or (move.held and self.epoch <= move.epoch)
            if waiting or markers[move.operator] < move.epoch or any(_together(m, move) for m in blocked):
                blocked.append(move)
            elif move.paced and move not in self.wanted and unasked:
                blocked.append(move)  # one at a time, so that what is asked for need not queue behind it
            else:
                unasked = unasked or (move.paced and move not in self.wanted)
                found.append(move)
        return found

    def sent(self, move: Migration) -> None:
        self.outgoing.remove(move)
        self.wanted.discard(move)

    def admits(self, move: Migration, markers: Mapping[int, Epoch], readers: Collection[RegionId]) -> bool:
        """Whether state that has come may be taken in now. `readers`: who owns the operator above.

        State that rows wait for is taken in when no older row can come any more; in order, when whoever reads the
        results has had the last of the source's: then the source has processed its marker, too.
        """
        if move.copy or not (self._strict(move) or move.shadow):
            return True
        if markers[move.operator] < move.epoch:
            return False
        if any(m.epoch < move.epoch and not m.copy and _together(m, move) for m in self.outgoing):
            return False  # these keys were ours before, and what is left of that time has not gone yet
        above, _ = self.plan.consumer(move.operator)
        known = {**self.drained, (self.region, above): markers[above]}
        ordered = move.ordered and self._strict(move)
        return not ordered or all(
            known.get((region, above), Epoch(0)) >= move.epoch or self._behind_the_last(move, region)
            for region in readers
        )

    def _behind_the_last(self, move: Migration, reader: RegionId) -> bool:
        """Whether what we tell a reader comes behind the source's last answer, without the source saying so.

        The reader is the source's region, and only it and we have sent it rows: its own it has answered when it said
        that it is drained, which we have heard; ours lie before our answers in one log.
        """
        others = {region for region, _ in self.drained} - {self.region, move.source}
        return move.dual and reader == move.source and not others

    def unacknowledged(
        self, markers: Mapping[int, Epoch], readers_of: Callable[[Migration], Collection[RegionId]]
    ) -> list[Migration]:
        """Moves that are completed here without a word of the source: all rows are in the shadow, and what comes of
        them need not be in order, or is. `readers_of`: who owns the operator above."""
        arrival = [m for m in self.incoming if self.plan.operators[m.operator].emits == "arrival"]
        dual = [m for m in arrival if m.dual and not m.copy and self.admits(m, markers, ())]
        return [m for m in dual if not m.ordered or all(self._behind_the_last(m, r) for r in readers_of(m))]

    def arrived(self, move: Migration) -> None:
        if move in self.incoming:
            self.incoming.remove(move)
            if not move.copy:
                self.shadows.pop(shadow_key(move), None)

    def drained_sinks(self, fenced: Collection[RegionId]) -> list[Migration]:
        """Sinks that came here, and may let out what has waited: the last result of their old region is committed."""

        def is_drained(move: Migration) -> bool:
            return self.drained.get((move.source, move.operator), Epoch(0)) >= move.epoch or move.source in fenced

        found = sorted(move for move in self.incoming if move.sink and is_drained(move))
        self.incoming[:] = [move for move in self.incoming if move not in found]
        return found

    def behind(self, query: QueryId, operator: int, epoch: Epoch) -> Migration | None:
        """What rows wait for that reach a sink under an epoch: the newest of its moves that they were routed by."""
        mine = (m for m in self.incoming if m.sink and m.instance == instance_of(query, operator) and m.epoch <= epoch)
        return max(mine, default=None)

    # --- how far rows are answered

    def told(self, move: Migration, clock: int, more: Answered = ()) -> None:
        """State of keys came whose rows are answered up to a watermark; of some, further."""
        if self.plan.operators[move.operator].answered_stay:
            self.answered[move.instance] = (*self.answered.get(move.instance, ()), (move.keys, clock), *more)

    def told_of(self, move: Migration) -> Answered:
        """What the new owner of these keys must know beside our watermark. It holds of a key wherever its rows are."""
        return tuple((keys, clock) for keys, clock in self.answered.get(move.instance, ()) if overlap(keys, move.keys))

    def answered_until(self, query: QueryId, operator: int, key: Key) -> int:
        """Rows of a key are answered up to here, whatever the watermark says."""
        known = self.answered.get(instance_of(query, operator), ())
        return max((clock for keys, clock in known if contains(keys, key)), default=NEVER)

    def caught_up(self, released: Mapping[int, Mapping[QueryId, int]]) -> None:
        """The watermarks stand there now: what they say themselves need not be remembered."""
        for (query, operator), known in list(self.answered.items()):
            passed = released.get(operator, {}).get(query, NEVER)
            ahead = tuple((keys, clock) for keys, clock in known if clock > passed)
            if len(ahead) < len(known):
                self.answered[query, operator] = ahead
            if not ahead:
                del self.answered[query, operator]

    def held(self, query: QueryId, operator: int, markers: Mapping[int, Epoch]) -> bool:
        """Whether the instance must not let its clock go on: state is on its way, or old rows may still be."""
        mine = instance_of(query, operator)
        leaving = any(m.instance == mine for m in self.outgoing)
        node = self.plan.operators[operator]
        coming = any(m.instance == mine and not m.copy and not stands_apart(m, node) for m in self.incoming)
        return leaving or coming or markers[operator] < self.latest(query)

    def pending(self, query: QueryId, operator: int) -> bool:
        """Whether state of keys that the instance owns is on its way."""
        return any(m.instance == instance_of(query, operator) and not m.copy for m in self.incoming)

    def dead_before(self, operator: int, clocks: Mapping[QueryId, int], now: Deployment) -> int:
        """The clock of an operator's state here: the least of the queries that may have rows in it.

        Those are the ones that live here or are still to be handed over. The others' rows have gone, and their clocks,
        which stand still here, must not keep what is left. A join whose query is to join in another order lets nothing
        go: the rows of a stream that lies behind may meet it there.
        """
        leaving = {m.query for m in self.outgoing if m.operator == operator}
        lives_here = {q for q in clocks if self.region in now.owners(now.queries[q], operator)}
        if isinstance(self.plan.operators[operator], Join) and any(now.queries[q].successor for q in lives_here):
            return NEVER
        return min((clocks[q] for q in lives_here | (leaving & clocks.keys())), default=FOREVER)

    # --- generations

    def latest(self, query: QueryId | None = None) -> Epoch:
        """The newest epoch at which an instance of the query (None: of any) moved, or at which it went on."""
        moved = [o.since for (q, _), history in self.owners.items() if query in (None, q) for o in history]
        return max([*moved, *(epoch for q, epoch in self.resumed.items() if query in (None, q))], default=Epoch(0))

    def owned_since(self, query: QueryId, operator: int, epoch: Epoch, key: Key = ()) -> Epoch:
        """The generation of rows of a key that reach the instance here under an epoch: since when it is ours."""
        return generation(self.owners.get(instance_of(query, operator), ()), self.region, key, epoch)

    def generations(self, operator: int, epoch: Epoch) -> Iterator[tuple[QueryId, list[tuple[KeySet, Epoch]]]]:
        """The same for all rows of an operator: of instances that ever moved, which keys have which."""
        for (query, index), history in self.owners.items():
            if index == operator:
                yield query, generations(history, self.region, epoch)

    def parting(self, operator: int) -> list[Migration]:
        """Moves that part an operator's state: what is older than one of them goes with it, what is newer stays. The
        oldest first."""
        return sorted(move for move in self.outgoing if move.operator == operator and not move.copy)

    def company(self, query: QueryId, operator: int, key: Key, generation: Epoch) -> int:
        """Rows of a key that are here meet if this is the same of both: no move takes the one and leaves the other.

        Generations alone would not do: a copy begins a new one, and whoever is copied goes on as if nothing had been.
        """
        mine = (m for m in self.parting(operator) if m.query == query and contains(m.keys, key))
        return max((move.goes_before for move in mine if move.goes_before <= generation), default=0)

    # --- forgetting

    def forget(self, query: QueryId) -> None:
        """The query is gone."""
        self.outgoing[:] = [m for m in self.outgoing if m.query != query]
        self.incoming[:] = [m for m in self.incoming if m.query != query]
        for instance in [instance for instance in self.owners if instance[0] == query]:
            del self.owners[instance]
        for instance in [instance for instance in self.answered if instance[0] == query]:
            del self.answered[instance]
        for key in [key for key in self.shadows if key[0] == query]:
            del self.shadows[key]
        self.resumed.pop(query, None)

    def fence(self, region: RegionId, announced: Collection[Migration] = ()) -> list[Migration]:
        """The region is lost: its word is not waited for, nor its state, but what it has `announced` already.

        Returns the moves whose state is lost.
        """
        sent = (move for move in self.incoming if move.source == region and not move.sink)
        lost = [move for move in sent if move not in announced]
        self.incoming[:] = [move for move in self.incoming if move not in lost]
        for key in [key for key in self.drained if key[0] == region]:
            del self.drained[key]
        return lost

    def cut(self, markers: Mapping[int, Epoch]) -> None:
        """Forget what no row can ask for any more. `markers`: our own, as the commit that is being made publishes them.

        Rows that reach an operator from now on were routed by an epoch at or after its marker.
        """
        everywhere = min(markers.values(), default=Epoch(0))
        for instance, history in list(self.owners.items()):
            paired = len(self.plan.operators[instance[1]].inputs) > 1  # which rows have met is told by generations
            moving = None if paired else [m.keys for m in (*self.outgoing, *self.incoming) if m.instance == instance]
            kept = trimmed(history, self.region, markers[instance[1]], everywhere, moving)
            if not kept:
                del self.owners[instance]
            elif len(kept) < len(history):
                self.owners[instance] = kept
        for key, shadow in list(self.shadows.items()):
            if shadow.dropped and shadow.until is not None and markers[shadow.operator] >= shadow.until:
                del self.shadows[key]
        for query in [query for query, epoch in self.resumed.items() if epoch <= everywhere]:
            del self.resumed[query]


def _together(one: Migration, other: Migration) -> bool:
    return one.instance == other.instance and overlap(one.keys, other.keys)
