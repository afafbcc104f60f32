"""A fleet that can run: its runners, its control loop and its supervisor are started, watched and stopped together."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Protocol

from pyspark.sql import SparkSession

from godwit.api.admission_controller import AdmissionController
from godwit.api.control_loop import check as check_loop
from godwit.api.core import Elsewhere, FleetCore, FleetOptions
from godwit.api.operations import Operations
from godwit.api.reoptimiser import Reoptimiser
from godwit.api.replanner import Replanner
from godwit.api.source_mobility import MobilityDriver
from godwit.api.tables import TableClocks
from godwit.control.commands import Command
from godwit.control.reoptimiser import Watching
from godwit.control.restore import Hints, restore
from godwit.errors import DeploymentError
from godwit.ids import RegionId, StreamId
from godwit.ingest.arrival_clocks import ArrivalClocks
from godwit.maintenance.supervisor import Supervisor
from godwit.migration.source_mobility import Following
from godwit.model.deployment import Delta, Deployment
from godwit.observe.status import Status
from godwit.replan.optimiser import ReplanPolicy
from godwit.storage.store import Store


class OpenSource(Protocol):
    """Something that feeds streams until it is stopped."""

    def stop(self) -> None: ...
    def check(self) -> None: ...


class RunningFleet(FleetCore):
    """Opens where an earlier process stood; runs until stopped, or as far as `process_available` drives it."""

    def __init__(
        self,
        root: Path | str | Store,
        spark: SparkSession | None,
        options: FleetOptions,
        admission: bool | str | None,
        reoptimise: bool | Watching,
        mobility: bool | Following = False,
        replan: bool | ReplanPolicy = False,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        super().__init__(root, spark, options, elsewhere)
        self._opened: list[OpenSource] = []
        #: of reference tables
        self.clocks = TableClocks(self)
        self.gateway.advanced = self.clocks.beat
        self.arrivals = ArrivalClocks(self)
        self.admission = AdmissionController(self, admission)
        self.reoptimiser = Reoptimiser(self, reoptimise)
        self.mobility = MobilityDriver(self, mobility)
        if mobility:
            self.gateway.appended = self._appended
        self._operations = Operations(self, self.admission)
        self.replanner = Replanner(self, self._operations.plans, replan)
        looks = {
            "plan optimiser": lambda: self.replanner.look_if_due(),
            "re-optimiser": lambda: self.reoptimiser.look_if_due(),
            "admission": lambda: self.admission.look_if_due(),
            "tables": lambda: self.clocks.say(),
            "arrival": lambda: self.arrivals.beat(),
        }
        self.supervisor = Supervisor(self, self.retention, looks)
        self._reopen()

    def start(self) -> None:
        """Let all regions run until `stop`."""
        self.folder_lock.take()
        self.metrics.listen()
        self.dispatcher.start()
        self.pool.start()
        self.supervisor.start()
        self.control.start()
        self.mobility.start()

    def stop(self) -> None:
        self.metrics.ignore()  # what is broken off now has not failed
        self.mobility.stop()
        self.control.stop()
        for source in self._opened:
            source.stop()
        self.pool.stop()
        self.dispatcher.stop()
        self.supervisor.stop()
        self.folder_lock.release()

    def status(self) -> Status:
        """What the fleet does and has done: rows, times, latencies, clocks, links, state, sinks, failures."""
        return self.metrics.status({**self.pool.failures(), **self.supervisor.failures()})

    def process_available(self, timeout: float = 300.0) -> None:
        """Work until everything that was pushed has been answered."""
        with self.pool.pressed():
            self._process_available(timeout)

    def _process_available(self, timeout: float) -> None:
        until = time.monotonic() + timeout
        self.arrivals.beat()
        while time.monotonic() < until:
            self.check()
            self.clocks.beat(now=True)
            if self.pool.running:
                if self.pool.idle() and self.control.quiet and not self.plane.keys.busy:
                    return self.supervisor.flush()
                time.sleep(0.02)
                continue
            self.control.turn()
            if not self.pool.step_all():
                if not self.pool.underway and self.control.quiet and not self.plane.keys.busy:
                    return self.supervisor.flush()
                time.sleep(0.002)
        msg = f"the fleet was still busy after {timeout:g} s; `fleet.status()` shows with what"
        raise DeploymentError(msg)

    def check(self) -> None:
        """Raise if a region's runner, a sink or a source has failed."""
        for source in self._opened:
            source.check()
        check_loop(self.control)
        if self.mobility.failure is not None:
            msg = f"source mobility has stopped: {self.mobility.failure}. Keys stay where they are; reopen the fleet"
            raise DeploymentError(msg) from self.mobility.failure
        for name, failure in {**self.pool.failures(), **self.supervisor.failures()}.items():
            msg = f"{name} has stopped: {failure}. Nothing is lost: fix the cause, then open the fleet again"
            raise DeploymentError(msg) from failure

    def _reopen(self) -> None:
        """Stand where an earlier process stood, by the logs alone; then carry out the commands that have no answer."""
        old, standing = self.deployment, self.standing
        places = [self.admission.places(query, old) for query in old.queries.values()]
        hints = {hint: site for hinted, _ in places for hint, site in hinted.items()}
        ways = {hint: way for _, known in places for hint, way in known.items()}
        restore(self.plane.planner, old, Hints(standing.sinks, standing.by_hand, hints, ways))
        for stream in old.streams.values():
            self._operations.prepare(stream)
        with self.lock:
            # The process may have died before it had written down what the last epoch ended.
            self.gateway.sessions.follow(old.devices, old)
            for device in sorted(old.stays.keys() - old.devices.keys()):
                self.gateway.sessions.leave(device, old)
            self.gateway.sessions.repeat_ends(old.streams, old)
            self.gateway.tables.repeat(old.streams, old)
        rows = Delta(queries=old.queries, feeds=old.feeds, devices=old.devices)
        self.pool.expect(Deployment(), rows, old)
        self.pool.hire()
        with self.control.driving():
            self.executor.carry_out(self.plane.resume(standing.waiting, self.executor.log.held()))
            self.control.recover(standing.command, at_once=self._spark is not None)

    def _appended(self, region: RegionId, stream: StreamId) -> None:
        self.pool.wake(region, stream)
        self.mobility.wake()

    def carry_out(self, command: Command, again: bool) -> None:
        self._operations.carry_out(command, again)
