"""The crew: all runners of this process. It starts one for a (region, shape) when it is first needed.

A region needs a shape's runner as soon as a device that feeds the shape is attached there, or an instance of it is
placed there. It stays until the shape has no query any more: an idle one costs nothing but a glance at its logs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

from pyspark.sql import SparkSession

from godwit.delivery.archive import Entry, entries
from godwit.ids import QueryId, RegionId, StreamId
from godwit.model.deployment import Deployment
from godwit.model.plan import Shape
from godwit.region.loop import RunnerLoop
from godwit.region.poll import commit_log
from godwit.region.runner import Limits, Runner
from godwit.region.transfer import StateTransfer
from godwit.storage.by_query import may_hold
from godwit.storage.log import Log, Record, Segment

Key = tuple[RegionId, str]

#: how often somebody who waits for an epoch looks (seconds)
LOOK_EVERY = 0.002


class RunnerPool:
    """Runners and, while the fleet runs, their metronomes."""

    def __init__(
        self,
        spark: SparkSession,
        root: Path,
        limits: Limits,
        at: Callable[[str], None],
        told: Sequence[Callable[[Runner, int, Record], None]],
        carriage: StateTransfer | None = None,
    ) -> None:
        self._spark, self._root, self._limits, self._at, self._told = spark, root, limits, at, told
        self._carriage = carriage
        self.runners: dict[Key, Runner] = {}
        self._metronomes: dict[Key, RunnerLoop] = {}
        self._running = False
        self._entries: dict[Key, list[Entry]] = {}
        #: shapes whose earlier runners, if there were any, are here again
        self._resumed: set[str] = set()
        self._changing = threading.Lock()

    def arrange(self, deployment: Deployment) -> None:
        """See to it that every runner that the deployment needs is there."""
        with self._changing:
            self._arrange(deployment)

    def dismiss(self, deployment: Callable[[], Deployment], kept: AbstractSet[str]) -> None:
        """Let go of the runners of shapes that no query has any more, once they know it; but not of the `kept` ones.

        Nothing is lost by it: should the shape come back, they go on where it does (`Runner`).
        """
        with self._changing:
            needed = {*deployment().shapes(), *kept}
            for shape in {key for _, key in self.runners} - needed:
                mine = [key for key in self.runners if key[1] == shape]
                if all(self.runners[key].unemployed for key in mine):
                    for key in mine:
                        if (metronome := self._metronomes.pop(key, None)) is not None:
                            metronome.stop()
                        del self.runners[key]
                    self._resumed.discard(shape)

    def _arrange(self, deployment: Deployment) -> None:
        for shape in deployment.shapes().values():
            # Whoever ran the shape before goes on: others wait for its word, and it may have state to hand over.
            earlier = set() if shape.key in self._resumed else self.regions_of(shape.key)
            self._resumed.add(shape.key)
            for region in sorted(deployment.regions_of(shape) | earlier):
                if (region, shape.key) not in self.runners:
                    self._hire(region, shape)

    def _hire(self, region: RegionId, shape: Shape) -> None:
        key = (region, shape.key)
        parts = (self._limits, self._carriage, self._at, self._after)
        self.runners[key] = Runner(self._spark, self._root, region, shape, *parts)
        runner = self.runners[key]
        last = runner.commits.read(runner.commits.last)
        if last is not None:
            self._after(runner, runner.commits.last, last)  # the process may have died right after this commit
        if self._running:
            self._metronomes[key] = RunnerLoop(self._spark, self.runners[key])
            self._metronomes[key].start()

    def _after(self, runner: Runner, number: int, record: Record) -> None:
        for tell in self._told:
            tell(runner, number, record)

    def start(self) -> None:
        self._running = True
        for key, runner in self.runners.items():
            if key not in self._metronomes:
                self._metronomes[key] = RunnerLoop(self._spark, runner)
                self._metronomes[key].start()

    def stop(self) -> None:
        self._running = False
        for metronome in self._metronomes.values():
            metronome.stop()
        self._metronomes.clear()

    @property
    def running(self) -> bool:
        return self._running

    @property
    def adopted(self) -> int:
        """The newest epoch that all runners work under."""
        return min((int(runner.deployment.epoch) for runner in list(self.runners.values())), default=0)

    def await_epoch(self, epoch: int) -> bool:
        """Wait until all runners work under an epoch; False if the fleet is stopped, or a runner has failed, before."""
        while self._running and not self.failures():
            if self.adopted >= epoch:
                return True
            time.sleep(LOOK_EVERY)
        return False

    def failures(self) -> dict[str, BaseException]:
        return {m.name: m.failure for m in self._metronomes.values() if m.failure is not None}

    def step_all(self) -> bool:
        """One micro-batch of every runner that has something to do; whether there was any."""
        busy = False
        for runner in list(self.runners.values()):
            if runner.waiting():
                busy = runner.step() is not None or busy
        return busy

    def idle(self) -> bool:
        return not self.underway and not any(runner.waiting() for runner in list(self.runners.values()))

    @property
    def underway(self) -> bool:
        """Whether state that was announced has not reached its new home yet."""
        return any(runner.memory.underway for runner in list(self.runners.values()))

    def of_shape(self, shape: str) -> list[Runner]:
        return [runner for (_, key), runner in self.runners.items() if key == shape]

    def commits(self, key: Key, after: int) -> Iterator[tuple[int, Record]]:
        """Commit records past a number, as far as they are kept."""
        return Log(commit_log(self._root, *key)).after(after)

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

    def regions_of(self, shape: str) -> set[RegionId]:
        """The regions that run, or ever ran, a shape."""
        return {RegionId(p.parts[-4]) for p in (self._root / "regions").glob(f"*/shapes/{shape}/commits")}

    def results(self, shape: str, query: QueryId) -> list[Segment]:
        """Segments with results of a query (and perhaps others), from all regions, as far as they are committed."""
        return [s for entry in self._catch_up(shape) for s in entry.results if may_hold(s, query)]

    def late(self, shape: str) -> list[Segment]:
        return [segment for entry in self._catch_up(shape) for segment in entry.late]

    def _catch_up(self, shape: str) -> list[Entry]:
        whole: list[Entry] = []
        for region in sorted(self.regions_of(shape)):
            known = self._entries.setdefault((region, shape), [])
            known.extend(entries(self._root, region, shape, known[-1].number if known else 0))
            whole += known
        return whole

    def forget_results(self, keys: set[Key]) -> None:
        """Files have been merged or removed: look again."""
        for key in keys:
            self._entries.pop(key, None)
