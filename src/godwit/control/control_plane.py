"""The control plane in one object: what a fleet's runtime and command line talk to.

    control = ControlPlane(topology, streams=streams, feeds=feeds)
    for instruction in control.submit(query, sink_site):
        ...                                   # publish it, tell the regions
    control.acknowledge(region, epoch)        # -> the next instructions

Everything returns instructions; nothing is done here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from godwit.control.coordinator import Coordinator
from godwit.control.events import (
    ChangesArrived,
    DeviceFeeds,
    Event,
    HandoverDone,
    Instruction,
    PlacesWished,
    Publish,
    QuerySubmitted,
    QueryWithdrawn,
    RegionAcked,
    Revert,
)
from godwit.control.explain import explain
from godwit.control.plan_state import Planner
from godwit.control.redeploy.strategy import Batch, redeployment
from godwit.control.stage import merged
from godwit.ids import DeviceId, Epoch, OperatorId, QueryId, RegionId, SiteId, StreamId
from godwit.model.changes import Change, apply
from godwit.model.deployment import Delta, Deployment
from godwit.model.global_plan import Cost, unit_cost
from godwit.model.plan import Query, Stream
from godwit.model.topology import Topology
from godwit.placement.rules.base import Ways, Wish

#: so many deltas are kept before they are merged into the deployment unasked
KEEP_UNREAD = 1000


class ControlPlane:
    """Planner and coordinator behind one door.

    `automatic`: regions need not acknowledge; every stage counts as in force when it is published. For one process,
    which may still let a stage wait for the one before it (`change(.., stepwise=True)`, then `go_on` until it is done).
    """

    def __init__(
        self,
        topology: Topology,
        *,
        rule: str = "bottom-up",
        redeployment_strategy: str = "incremental",
        state: str = "delta",
        streams: Mapping[StreamId, Stream] | None = None,
        feeds: Mapping[StreamId, Iterable[DeviceId]] | None = None,
        cost: Cost = unit_cost,
        automatic: bool = False,
    ) -> None:
        self.planner = Planner(topology, rule, state, streams, feeds, cost)
        self.planner.journal.forget()
        self._strategy = redeployment(redeployment_strategy)
        self.coordinator = Coordinator(self.planner, self._strategy)
        self._automatic = automatic
        self._deployment = self.planner.rows.deployment(Epoch(0))
        #: deltas published since somebody last asked for the deployment
        self._unread: list[Delta] = []

    def recall(self, before: Deployment) -> None:
        """Go on where an earlier process left off, as far as the ground does not say it."""
        self.planner.rows.recall(before)
        self._deployment = self.planner.rows.deployment(Epoch(0))

    # -- reading

    @property
    def topology(self) -> Topology:
        """The ground with all changes that have arrived, planned for or not."""
        return self.coordinator.monitor.latest

    @property
    def epoch(self) -> Epoch:
        return self.coordinator.epoch

    @property
    def deployment(self) -> Deployment:
        """All rows as of the epoch published last."""
        if self._unread:
            self._deployment = replace(self._deployment.apply(merged(self._unread)), epoch=self.epoch)
            self._unread = []
        return self._deployment

    # -- events

    def handle(self, event: Event, stepwise: bool = False) -> list[Instruction]:
        told = self.coordinator.handle(event)
        while self._automatic and self.coordinator.phase != "idle" and not (stepwise and self.unfinished):
            told += self._acknowledge_all()
        return self._noted(told)

    def go_on(self) -> list[Instruction]:
        """The stage published last is in force: the next one."""
        told = self._acknowledge_all()
        while self.coordinator.phase != "idle" and not self.unfinished:
            told += self._acknowledge_all()
        return self._noted(told)

    @property
    def unfinished(self) -> bool:
        """Whether stages of the running reconfiguration are still to be published."""
        return self.coordinator.unfinished

    def _acknowledge_all(self) -> list[Instruction]:
        epoch, told = self.epoch, list[Instruction]()
        for region in sorted(self.planner.regions):
            told += self.coordinator.handle(RegionAcked(region, epoch))
        return told

    def _noted(self, told: list[Instruction]) -> list[Instruction]:
        self._unread += [one.delta for one in told if isinstance(one, Publish | Revert)]
        if len(self._unread) > KEEP_UNREAD:
            _ = self.deployment
        return told

    def submit(
        self,
        query: Query,
        sink_site: SiteId | None = None,
        wishes: Mapping[Wish, SiteId] | None = None,
        ways: Mapping[Wish, Ways] | None = None,
    ) -> list[Instruction]:
        return self.handle(QuerySubmitted(query, sink_site, wishes or {}, ways or {}))

    def wish(self, wishes: Mapping[Wish, SiteId], cause: str) -> list[Instruction]:
        """Operators are wanted at these sites; those that can be there move."""
        return self.handle(PlacesWished(wishes, cause))

    def withdraw(self, query: QueryId) -> list[Instruction]:
        return self.handle(QueryWithdrawn(query))

    def change(self, changes: Iterable[Change], stepwise: bool = False) -> list[Instruction]:
        """Topology changes, in order; TopologyError names the first that does not fit, and then none is taken."""
        return self.handle(ChangesArrived(tuple(changes)), stepwise)

    def acknowledge(self, region: RegionId, epoch: Epoch) -> list[Instruction]:
        return self.handle(RegionAcked(region, epoch))

    def handed_over(self, instance: OperatorId, epoch: Epoch) -> list[Instruction]:
        return self.handle(HandoverDone(instance, epoch))

    # -- streams

    def declare(self, stream: Stream, devices: Iterable[DeviceId] = ()) -> None:
        """Make a stream known before queries read it; its row goes out with the next delta."""
        self.planner.declare(stream, devices)

    def feed(self, device: DeviceId, streams: Iterable[StreamId]) -> list[Instruction]:
        """From now on the device feeds these streams."""
        return self.handle(DeviceFeeds(device, tuple(streams)))

    # -- dry run

    def explain_change(self, changes: Iterable[Change]) -> str:
        """What these changes would do: contexts, migration queries and marker. Nothing happens."""
        changes = tuple(changes)
        batch = Batch(apply(self.topology, changes), changes)
        return explain(self.planner, self._strategy, batch, Epoch(self.epoch + 1))
