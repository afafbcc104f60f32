"""The control plane: planner and coordinator behind one door. Pure: what it decides, others carry out.

    plane.change([DeviceMoved(...)]) -> [Publish(epoch 7, ...)]      an executor writes and announces the epoch
    plane.acknowledge(region, 7)     -> [Commit(epoch 7), ...]       when the regions work under it

There is one epoch number: the coordinator's, which is the number of the record in the control log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from godwit.control.coordinator import IDLE, Coordinator
from godwit.control.events import (
    ChangesArrived,
    DeviceFeeds,
    Event,
    HandoverDone,
    Instruction,
    PlacesWished,
    QuerySubmitted,
    QueryWithdrawn,
    RegionAcked,
)
from godwit.control.explain import explain
from godwit.control.plan_state import Planner
from godwit.control.redeploy.strategy import ChangeBatch, redeployment
from godwit.ids import DeviceId, Epoch, QueryId, RegionId, SiteId, StreamId
from godwit.model.changes import Change, apply
from godwit.model.deployment import Deployment
from godwit.model.global_plan import Cost, unit_cost
from godwit.model.instances import InstanceId
from godwit.model.plan import Query, Stream
from godwit.model.topology import Topology
from godwit.placement.rules.base import Ways, Wish


class ControlPlane:
    """Planner and coordinator behind one door."""

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
        epoch: Epoch = Epoch(0),  # noqa: B008 - a number
    ) -> None:
        self.planner = Planner(topology, rule, state, streams, feeds, cost)
        self.planner.journal.forget()
        self._strategy = redeployment(redeployment_strategy)
        self.coordinator = Coordinator(self.planner, self._strategy, epoch)

    # -- reading

    @property
    def topology(self) -> Topology:
        """The topology with all changes that have arrived, planned for or not."""
        return self.coordinator.monitor.latest

    @property
    def epoch(self) -> Epoch:
        return self.coordinator.epoch

    @property
    def idle(self) -> bool:
        """Whether no epoch waits for acknowledgements."""
        return self.coordinator.phase == IDLE

    @property
    def deployment(self) -> Deployment:
        """All rows as planned, written out; what is published has one holder, the executor."""
        return self.planner.rows.deployment(self.epoch)

    # -- events

    def handle(self, event: Event) -> list[Instruction]:
        return self.coordinator.handle(event)

    def settle(self) -> list[Instruction]:
        """Acknowledge on behalf of all regions until nothing is left to do: for plans that no region runs."""
        told = list[Instruction]()
        while not self.idle:
            epoch = self.epoch
            for region in sorted(self.planner.regions):
                told += self.coordinator.handle(RegionAcked(region, epoch))
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

    def change(self, changes: Iterable[Change]) -> list[Instruction]:
        """Topology changes, in order; TopologyError names the first that does not fit, and then none is taken."""
        return self.handle(ChangesArrived(tuple(changes)))

    def acknowledge(self, region: RegionId, epoch: Epoch) -> list[Instruction]:
        return self.handle(RegionAcked(region, epoch))

    def handed_over(self, instance: InstanceId, epoch: Epoch) -> list[Instruction]:
        return self.handle(HandoverDone(instance, epoch))

    def feed(self, device: DeviceId, streams: Iterable[StreamId]) -> list[Instruction]:
        """From now on the device feeds these streams."""
        return self.handle(DeviceFeeds(device, tuple(streams)))

    # -- dry run

    def explain_change(self, changes: Iterable[Change]) -> str:
        """What these changes would do: placement, contexts of sub-plans, and state that moves. Nothing happens."""
        changes = tuple(changes)
        batch = ChangeBatch(apply(self.topology, changes), changes)
        return explain(self.planner, self._strategy, batch, Epoch(self.epoch + 1))
