"""The crew: all runners of this process. It starts one for a (region, shape) when it is first needed.

A region needs a shape's runner as soon as a device that feeds the shape is attached there, or an instance of it is
placed there. Runners stay: an idle one costs nothing but a glance at its logs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from godwit.ids import RegionId
from godwit.model.deployment import Deployment
from godwit.model.plan import Shape
from godwit.runtime.log import Log, Record, Segment
from godwit.runtime.metronome import Metronome
from godwit.runtime.runner import Limits, Runner
from godwit.runtime.work import commit_log

Key = tuple[RegionId, str]


class Crew:
    """Runners and, while the fleet runs, their metronomes."""

    def __init__(self, spark: SparkSession, root: Path, limits: Limits, at: Callable[[str], None]) -> None:
        self._spark, self._root, self._limits, self._at = spark, root, limits, at
        self.runners: dict[Key, Runner] = {}
        self._metronomes: dict[Key, Metronome] = {}
        self._running = False
        self._results: dict[Key, list[Segment]] = {}
        self._late: dict[Key, list[Segment]] = {}
        self._read_to: dict[Key, int] = {}

    def arrange(self, deployment: Deployment) -> None:
        """See to it that every runner that the deployment needs is there."""
        for shape in deployment.shapes().values():
            for region in sorted(_regions(deployment, shape)):
                if (region, shape.key) not in self.runners:
                    self._hire(region, shape)

    def _hire(self, region: RegionId, shape: Shape) -> None:
        key = (region, shape.key)
        self.runners[key] = Runner(self._spark, self._root, region, shape, self._limits, self._at)
        if self._running:
            self._metronomes[key] = Metronome(self._spark, self.runners[key])
            self._metronomes[key].start()

    def start(self) -> None:
        self._running = True
        for key, runner in self.runners.items():
            if key not in self._metronomes:
                self._metronomes[key] = Metronome(self._spark, runner)
                self._metronomes[key].start()

    def stop(self) -> None:
        self._running = False
        for metronome in self._metronomes.values():
            metronome.stop()
        self._metronomes.clear()

    @property
    def running(self) -> bool:
        return self._running

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
        return not any(runner.waiting() for runner in list(self.runners.values()))

    def of_shape(self, shape: str) -> list[Runner]:
        return [runner for (_, key), runner in self.runners.items() if key == shape]

    def results(self, shape: str) -> list[Segment]:
        """Result segments of a shape's queries, from all regions, as far as they are committed."""
        self._catch_up(shape)
        return [s for key, found in self._results.items() if key[1] == shape for s in found]

    def late(self, shape: str) -> list[Segment]:
        self._catch_up(shape)
        return [s for key, found in self._late.items() if key[1] == shape for s in found]

    def _catch_up(self, shape: str) -> None:
        for region in sorted(p.parts[-4] for p in (self._root / "regions").glob(f"*/shapes/{shape}/commits")):
            key = (RegionId(region), shape)
            for number, record in self.commits(key, self._read_to.get(key, 0)):
                self._read_to[key] = number
                self._results.setdefault(key, []).extend(Segment.from_json(s) for s in record["results"])
                self._late.setdefault(key, []).extend(Segment.from_json(s) for _, s in record["late"])

    def commits(self, key: Key, after: int) -> Iterator[tuple[int, Record]]:
        log = Log(commit_log(self._root, *key))
        return log.after(max(after, log.first - 1))


def _regions(deployment: Deployment, shape: Shape) -> set[RegionId]:
    needed: set[RegionId] = set()
    for query in deployment.of_shape(shape.key):
        for _, scan in shape.plan.scans:
            for device in deployment.feeds.get(scan.stream, ()):
                site = deployment.devices.get(device)
                if site is not None and site in deployment.sites:
                    needed.add(deployment.sites[site])
        for index in range(len(shape.plan.operators)):
            if not shape.plan.is_local(index) and (home := deployment.home(query, index)) is not None:
                needed.add(home)
    return needed
