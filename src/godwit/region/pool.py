"""The runner pool: all runners of this process. It starts one for a (region, shape) when it is first needed.

A region needs a shape's runner as soon as a device that feeds the shape is attached there, or an instance of it is
placed there. It stays until the shape has no query any more: an idle one costs nothing but a glance at its logs.

A region acknowledges an epoch when all its runners work under it; the pool reports that as it happens.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import partial

from pyspark.sql import SparkSession

from godwit.delivery.archive import ArchiveEntry, Gathered, gathered
from godwit.engine.collector import search_by_java
from godwit.ids import Epoch, QueryId, RegionId, StreamId
from godwit.model.deployment import Delta, Deployment
from godwit.model.plan import Shape
from godwit.region.epochs import EpochReader
from godwit.region.link_delays import EPOCHS, LinkDelays
from godwit.region.loop import RegionLoop
from godwit.region.needs import Needs
from godwit.region.runner import Limits, Runner
from godwit.region.schedule import Hurry
from godwit.region.transfer import StateTransfer
from godwit.storage.by_query import may_hold
from godwit.storage.log import Record, Segment
from godwit.storage.names import REMOVING, commit_log, regions, regions_of, shape_folder, sink_positions
from godwit.storage.store import Store

Key = tuple[RegionId, str]


class RunnerPool:
    """Runners and, while the fleet runs, their loops."""

    def __init__(
        self,
        spark: SparkSession,
        store: Store,
        limits: Limits,
        at: Callable[[str], None],
        told: Sequence[Callable[[Runner, int, Record], None]],
        transfer: StateTransfer | None = None,
        acknowledge: Callable[[RegionId, Epoch], None] = lambda region, epoch: None,
        delays: LinkDelays | None = None,
        here: Callable[[RegionId], bool] = lambda region: True,
        elsewhere: Callable[[RegionId, str], None] = lambda region, shape: None,
        epochs: EpochReader | None = None,
    ) -> None:
        """`here`: whether a region is run by this process; `elsewhere`: told of messages of a shape to one that is
        not."""
        self._spark, self.store, self._limits, self._at, self._told = spark, store, limits, at, list(told)
        self._transfer, self._acknowledge, self._delays = transfer, acknowledge, delays
        self._here, self._elsewhere = here, elsewhere
        self._needs, self._epochs = Needs(), epochs or EpochReader(store)
        self.runners: dict[Key, Runner] = {}
        #: what is, or is to be, run here
        self._wanted: dict[Key, Shape] = {}
        self._loops: dict[RegionId, RegionLoop] = {}
        self._hurry: Hurry[RegionId] = Hurry()
        self._running = False
        #: how many wait here until everything has been answered, and until when others do
        self._pressing, self._pressed_until = 0, 0.0
        self._gathered: dict[Key, Gathered] = {}
        #: the newest epoch that is, or is about to be, published
        self._expected = Epoch(0)
        #: the epoch under which a runner has come to the end of a step, and a region all its runners
        self._reached: dict[Key, Epoch] = {}
        self._acked: dict[RegionId, Epoch] = {}
        #: guards the tables above; never held while a runner is built, stepped or waited for
        self._changing = threading.Lock()
        self._remove(store.get_document(REMOVING) or [])  # an earlier process may have died over it

    def follow(self, told: Callable[[Runner, int, Record], None]) -> None:
        """Be told of every commit from now on, by the region's thread: `told` must not wait for anything."""
        self._told.append(told)

    # --- which runners there are

    def expect(self, before: Deployment, delta: Delta, after: Deployment) -> list[Key]:
        """The next epoch is about to be published: note the runners that it needs; returns those that are new."""
        new: list[Key] = []
        self._expected = after.epoch
        for shape, needed in self._needs.change(before, delta, after).items():
            # Whoever ran the shape before goes on: others wait for its word, and it may have state to hand over.
            earlier = set() if any(key == shape for _, key in self._wanted) else self._reachable(shape)
            known = self._needs.shapes[shape]
            missing = [(region, shape) for region in sorted(needed | earlier) if (region, shape) not in self._wanted]
            with self._changing:
                self._wanted.update(dict.fromkeys(missing, known))
            new += missing
        return new

    def hire(self) -> None:
        """Build the runners that are missing: beside their region's loop or, if the fleet does not run, here."""
        for key, shape in list(self._wanted.items()):
            if not self._here(key[0]):
                continue
            if self._running:
                self._start(key, shape)
            elif not self._running and key not in self.runners:
                self._stepped(self._build(key, shape))

    def dismiss(self, deployment: Callable[[], Deployment], kept: AbstractSet[str]) -> None:
        """Let go of the runners of shapes that no query has any more, once they know it; but not of the `kept` ones.

        Nothing is lost by it: should the shape come back, they go on where it does (`Runner`).
        """
        with self._changing:
            needed = {*deployment().shapes(), *kept}
            gone: list[Key] = []
            for shape in {key for _, key in self._wanted} - needed:
                mine = [key for key in self._wanted if key[1] == shape and self._here(key[0])]
                if all(key in self.runners and self.runners[key].unemployed for key in mine):
                    for key in mine:
                        del self._wanted[key], self.runners[key]
                        self._reached.pop(key, None)
                        gone.append(key)
        for region, shape in gone:
            if (loop := self._loops.get(region)) is not None:
                loop.remove(shape)

    def remove(self, shapes: Iterable[str]) -> None:
        """Nobody runs these shapes, and what they kept is too old: nothing is left of them.

        In all regions or in none: what one region knows of another's messages must not outlive them.
        """
        with self._changing:
            idle = sorted(set(shapes) - {key for _, key in self._wanted})
            if idle:
                self.store.put_document(REMOVING, idle)
                self._remove(idle)

    def _remove(self, shapes: Sequence[str]) -> None:
        for name in list(sink_positions(self.store.disk)) if shapes else ():
            if (saved := self.store.get_document(name)) is not None and saved["shape"] in shapes:
                self.store.delete_document(name)  # it counts commits that nobody will find
        for shape in shapes:
            for region in regions(self.store.disk):
                self.store.remove(shape_folder(region, shape))
                self._gathered.pop((region, shape), None)
        if shapes:
            self.store.delete_document(REMOVING)

    def _start(self, key: Key, shape: Shape) -> None:
        region, name = key
        with self._changing:
            loop, new = self._loops.get(region), region not in self._loops
            if loop is None:
                loop = self._loops[region] = RegionLoop(region, self._stepped, self._hurry)
                loop.press(self._until())
        if new:
            loop.start()
        if name not in loop:
            loop.add(name, f"{region}/{name}", lambda: self._build(key, shape))

    def _build(self, key: Key, shape: Shape) -> Runner:
        runner = self.runners.get(key)
        if runner is None:
            parts = (self._limits, self._transfer, self._at, self._after, self._epochs, self._delays)
            runner = Runner(self._spark, self.store, key[0], shape, *parts)
            with self._changing:
                self.runners[key] = runner
            last = runner.commits.read(runner.commits.last)
            if last is not None:
                self._after(runner, runner.commits.last, last)  # the process may have died right after this commit
        return runner

    def _after(self, runner: Runner, number: int, record: Record) -> None:
        for tell in self._told:
            tell(runner, number, record)
        if record.get("left"):
            self.wake()  # another version of a query waits for it, under another shape
        for receiver, sent in record["messages"].items():
            seen = partial(self._seen, receiver, runner.shape.key)
            if self._delays is None:
                seen()
            else:
                self._delays.sent(runner.region, receiver, runner.shape.key, sent, seen, self._running)

    def _seen(self, receiver: RegionId, shape: str) -> None:
        """A message has reached its reader."""
        if (loop := self._loops.get(receiver)) is not None:
            loop.wake([shape])
        elif not self._here(receiver):
            self._elsewhere(receiver, shape)

    def wake(self, region: RegionId | None = None, stream: StreamId | None = None) -> None:
        """There is news in a region's log of a stream; or an epoch, for all."""
        if region is None:
            self._tell_epoch()
        elif (known := self._loops.get(region)) is not None:
            known.wake([k for (r, k) in list(self._wanted) if r == region and stream in (None, *self.scans((r, k)))])

    def _tell_epoch(self) -> None:
        """An epoch is in the control log: every region hears of it."""
        regions = {region for region, _ in list(self._wanted)} | set(self._loops)
        for region in regions:
            heard = partial(self._hears, region)
            if self._delays is None:
                heard()
            else:
                hub = self._delays.links.hub
                self._delays.sent(hub, region, EPOCHS, int(self._expected), heard, self._running)

    def _hears(self, region: RegionId) -> None:
        if (loop := self._loops.get(region)) is not None:
            loop.wake()

    # --- acknowledgements

    def _stepped(self, runner: Runner) -> None:
        """A runner has looked at the control log: its region may have reached a new epoch."""
        region, key, here = runner.region, (runner.region, runner.shape.key), runner.deployment.epoch
        if self._reached.get(key) == here and self._acked.get(region, Epoch(0)) >= here:
            return
        with self._changing:
            self._reached[key] = here
            mine = [self._reached.get(key, Epoch(0)) for key in self._wanted if key[0] == region]
            epoch = min(mine, default=Epoch(0))
            news = epoch > self._acked.get(region, Epoch(0))
            self._acked[region] = max(epoch, self._acked.get(region, Epoch(0)))
        if news and self._delays is not None and self._running:
            self._delays.reports(region, lambda: self._acknowledge(region, epoch))
        elif news:
            self._acknowledge(region, epoch)

    def announced(self, region: RegionId, shapes: Sequence[str], sender: RegionId) -> None:
        """Another process says that it has messages of these shapes for a region."""
        for runner in (self.runners.get((region, shape)) for shape in shapes):
            if runner is not None:
                runner.reader.expect_peer(sender)
        if (loop := self._loops.get(region)) is not None:
            loop.wake(shapes)

    def wanted(self, shape: str) -> list[RegionId]:
        """Where a shape runs, or is to run."""
        return [region for region, key in list(self._wanted) if key == shape]

    def runs(self, region: RegionId) -> bool:
        """Whether anything runs in a region, or is about to."""
        return any(where == region for where, _ in list(self._wanted))

    def scans(self, key: Key) -> set[StreamId]:
        """The streams that a runner reads."""
        return {scan.stream for _, scan in self._wanted[key].plan.scans}

    # --- running

    def start(self) -> None:
        self._running = True
        search_by_java()
        self.hire()

    def stop(self) -> None:
        self._running = False
        loops, self._loops = self._loops, {}
        for loop in loops.values():
            loop.stop(wait=False)
        for loop in loops.values():
            loop.stop()

    @property
    def running(self) -> bool:
        return self._running

    @property
    def acknowledged(self) -> dict[RegionId, Epoch]:
        """The epoch that each region works under."""
        return dict(self._acked)

    @property
    def adopted(self) -> int:
        """The newest epoch that all runners work under."""
        return min((int(runner.deployment.epoch) for runner in list(self.runners.values())), default=0)

    def revive(self) -> None:
        """Try again what the store has ended."""
        for loop in list(self._loops.values()):
            loop.revive()

    def failures(self) -> dict[str, BaseException]:
        return {name: why for loop in list(self._loops.values()) for name, why in loop.failures().items()}

    @contextlib.contextmanager
    def pressed(self) -> Iterator[None]:
        """Meanwhile no rows gather: somebody waits for all of them."""
        self._press(1)
        try:
            yield
        finally:
            self._press(-1)

    def press_until(self, until: float) -> None:
        """The same for somebody in another process, who says it again while he waits."""
        self._press(0, until)

    def _press(self, more: int, until: float = 0.0) -> None:
        with self._changing:
            self._pressing += more
            self._pressed_until = max(self._pressed_until, until)
            loops, until = list(self._loops.values()), self._until()
        for loop in loops:
            loop.press(until)

    def _until(self) -> float:
        return float("inf") if self._pressing else self._pressed_until

    def step_all(self, sources: bool = True) -> bool:
        """One micro-batch of every runner that has something to do; whether there was any. Without `sources`, only
        what other regions and the control plane have sent is taken in."""
        busy = False
        for runner in list(self.runners.values()):
            if runner.waiting():
                busy = runner.step(sources) is not None or runner.kernel.goes_on or busy
            self._stepped(runner)  # somebody else may have stepped it
        return busy

    def idle(self) -> bool:
        """Whether nobody has anything to do. A runner that is stepping may send something to one that was asked before
        it: so nobody may step, nor have committed, while all are asked."""
        runners, before = list(self.runners.values()), self.committed()
        wanted = sum(self._here(region) for region, _ in list(self._wanted))
        if len(runners) < wanted or any(runner.stepping for runner in runners):
            return False
        if self.underway or any(runner.waiting() for runner in runners):
            return False
        return self.committed() == before and not any(runner.stepping for runner in runners)

    @property
    def underway(self) -> bool:
        """Whether state that was announced has not reached its new home yet, or anything else is on its way."""
        if self._delays is not None and self._delays.busy:
            return True
        return any(runner.memory.underway or runner.making for runner in list(self.runners.values()))

    # --- reading

    def of_shape(self, shape: str) -> list[Runner]:
        return [runner for (_, key), runner in list(self.runners.items()) if key == shape]

    def commits(self, key: Key, after: int) -> Iterator[tuple[int, Record]]:
        """Commit records past a number, as far as they are kept."""
        return self.store.log(commit_log(*key)).after(after)

    def committed(self) -> int:
        """How many commits there were, over all runners."""
        return sum(runner.commits.last for runner in list(self.runners.values()))

    def unread(self, region: RegionId, stream: StreamId, last: int) -> int:
        """How many entries of a source log, which ends at `last`, its slowest reader still has before it."""
        readers = [
            (runner, f"source:{i}:{s.stream}")
            for (r, _), runner in list(self.runners.items())
            if r == region
            for i, s in runner.shape.plan.scans
            if s.stream == stream
        ]
        return max((last - runner.positions.get(name, 0) for runner, name in readers), default=0)

    def _reachable(self, shape: str) -> set[RegionId]:
        """Those of the regions that run, or ever ran, a shape that can be reached now: each region's own process knows
        of itself."""
        found = set()
        for region in regions(self.store.disk):
            with contextlib.suppress(OSError):  # (its logs lie in a domain that is cut off)
                if self.store.disk.is_folder(commit_log(region, shape)):
                    found.add(region)
        return found

    def regions_of(self, shape: str) -> set[RegionId]:
        """The regions that run, or ever ran, a shape."""
        return set(regions_of(self.store.disk, shape))

    def results(self, shape: str, *queries: QueryId) -> list[Segment]:
        """Segments with results of queries (and perhaps others), from all regions, as far as they are committed."""
        kept = (segment for entry in self._catch_up(shape) for segment in entry.results)
        return [segment for segment in kept if any(may_hold(segment, query) for query in queries)]

    def late(self, shape: str) -> list[Segment]:
        return [segment for entry in self._catch_up(shape) for segment in entry.late]

    def results_by_region(self, shape: str) -> dict[RegionId, list[Segment]]:
        """Segments with results of a shape's queries, in the order in which each region has committed them."""
        found = {region: self._archived(region, shape) for region in sorted(self.regions_of(shape))}
        return {region: [s for entry in known for s in entry.results] for region, known in found.items()}

    def _catch_up(self, shape: str) -> list[ArchiveEntry]:
        return [entry for region in sorted(self.regions_of(shape)) for entry in self._archived(region, shape)]

    def _archived(self, region: RegionId, shape: str) -> tuple[ArchiveEntry, ...]:
        known = gathered(self.store, region, shape, self._gathered.get((region, shape), Gathered()))
        self._gathered[region, shape] = known
        return known.entries

    def forget_results(self, keys: set[Key]) -> None:
        """Files have been merged or removed: look again."""
        for key in keys:
            self._gathered.pop(key, None)
