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
    EpochCommitted,
    Event,
    HandoverDone,
    Instruction,
    KeysArrived,
    KeysAsked,
    KeysDue,
    PlacesHinted,
    Publish,
    QuerySubmitted,
    QueryWithdrawn,
    RegionAcked,
    ReplicasDue,
)
from godwit.control.explain import explain
from godwit.control.key_routes import by_region, check_migration, region_of, route_table
from godwit.control.plan_state import Planner
from godwit.control.redeploy.strategy import ChangeBatch, redeployment
from godwit.ids import DeviceId, Epoch, QueryId, RegionId, SiteId, StreamId
from godwit.migration.key_migrations import KeyMigration, KeyMigrations, RouteKeys
from godwit.migration.phases import AUTO, chosen
from godwit.model.changes import Change, apply
from godwit.model.deployment import Deployment
from godwit.model.global_plan import Cost, unit_cost
from godwit.model.instances import InstanceId, instance_id
from godwit.model.keys import KeySet
from godwit.model.plan import Query, Stream
from godwit.model.routing import Route
from godwit.model.topology import Topology
from godwit.placement.rules.base import HintKey, Ways
from godwit.protocol.handover import Migration


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
        # Numbers of an earlier process are not given again: it had fewer migrations than a thousand an epoch.
        self.keys = KeyMigrations(int(epoch) * 1000)

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
        if isinstance(event, KeysArrived):
            self.keys.arrived(event.move)
            return self._with_keys([])
        if isinstance(event, ReplicasDue):
            self.keys.refresh()
            return self._with_keys([])
        if isinstance(event, KeysAsked):
            return self.migrate(event.query, event.operator, event.keys, event.site, event.strategy, event.held)
        if isinstance(event, KeysDue):
            self.keys.release(event.query, event.operator)
            return self._with_keys([])
        if isinstance(event, QueryWithdrawn):
            self.keys.forget(event.query)
        return self._with_keys(self.coordinator.handle(event))

    def _with_keys(self, instructions: list[Instruction]) -> list[Instruction]:
        """And what follows for keys that migrate: the next phase of each that has waited for just this."""
        found: list[Instruction] = []
        while True:
            for one in instructions:
                if isinstance(one, Publish):
                    phases = [request.number for request in one.requests if isinstance(request, RouteKeys)]
                    self.keys.published(one.epoch, phases, one.moves)
                elif isinstance(one, EpochCommitted):
                    self.keys.in_force(one.epoch)
                    self._leave_lost_sites()
            found += instructions
            changes = list(self.keys.changes(self._elsewhere))
            instructions = self.coordinator.together(changes) if changes and self.idle else self._queued(changes)
            idle = self.idle and not self.coordinator.unpublished
            passed = [one.number for one in self.keys.active.values() if one.asked] if idle and not instructions else []
            if passed:  # they changed nothing, so there was no epoch
                self.keys.published(self.epoch, passed, ())
                self.keys.in_force(self.coordinator.stable)
            elif not changes:
                return found

    def _queued(self, changes: Iterable[RouteKeys]) -> list[Instruction]:
        """Phases that wait for the next epoch, all of them for the same one."""
        return [instruction for change in changes for instruction in self.coordinator.handle(change)]

    def _leave_lost_sites(self) -> None:
        """Keys whose site is gone go to where the rest of their operator is."""
        known = [(one.query, one.operator) for one in (*self.keys.active.values(), *self.keys.queued)]
        for (query, operator), table in self.planner.rows.key_routes.items():
            home = region_of(self.planner, self.planner.rows.placement.get(instance_id(query, operator)))
            if home is None or (query, operator) in known or not any(map(self._lost, table.coarse)):
                continue
            for route in table.routes[:-1]:
                if self._lost(route) and route.process != home:
                    strategy = chosen("auto", self.planner.rows.queries[query].shape.plan.operators[operator])
                    home_site = str(self.planner.rows.placement[instance_id(query, operator)])
                    self.keys.ask(query, operator, route.keys, home, home_site, strategy)

    def _lost(self, route: Route) -> bool:
        return bool(route.site) and SiteId(route.site) not in self.planner.topology.sites

    def migrate(
        self, query: QueryId, operator: int, keys: KeySet, site: SiteId, strategy: str = AUTO, held: bool = False
    ) -> list[Instruction]:
        """Keys of a stateful operator go to a site; DeploymentError or ConfigError if that cannot be, and then nothing
        has changed."""
        node, region = check_migration(self.planner, query, operator, keys, site)
        self.keys.ask(query, operator, keys, region, str(site), chosen(strategy, node), held)
        return self._with_keys([])

    def _elsewhere(self, one: KeyMigration) -> list[tuple[RegionId, KeySet]]:
        """The keys of a migration that are not where they are to go, each part with the region that has it."""
        table = route_table(self.planner, one.query, one.operator)
        portions = by_region(table, one.keys) if table is not None else ()
        return [(route.process, part) for route, part in portions if route.process != one.target]

    def resume(self, waiting: Iterable[Change], held: Iterable[Migration] = ()) -> list[Instruction]:
        """Go on after a restart. Copies of keys that were being made are given up: their sources have the keys.

        `held`: state that the last epoch holds back. The next epoch lets it go, so there must be one."""
        instructions = self.coordinator.resume(waiting)
        for move in held:
            if move.epoch == self.epoch:
                self.keys.let_go(move)
        for (query, operator), table in self.planner.rows.key_routes.items():
            open_copies = any(route.copies or route.backups for route in table.coarse)
            for route in table.routes if open_copies else ():
                for target in (*route.copies, *route.backups):
                    self.keys.give_up(route.number, query, operator, route.keys, target, bool(route.copies))
        return self._with_keys(instructions)

    def cancel_keys(self, number: int) -> list[Instruction]:
        """Give a migration of keys up, as long as its source still answers."""
        self.keys.cancel(number)
        return self._with_keys([])

    def settle(self) -> list[Instruction]:
        """Acknowledge on behalf of all regions until nothing is left to do: for plans that no region runs."""
        instructions = list[Instruction]()
        while not self.idle:
            epoch = self.epoch
            for region in sorted(self.planner.regions):
                instructions += self.coordinator.handle(RegionAcked(region, epoch))
        return instructions

    def submit(
        self,
        query: Query,
        sink_site: SiteId | None = None,
        hints: Mapping[HintKey, SiteId] | None = None,
        ways: Mapping[HintKey, Ways] | None = None,
    ) -> list[Instruction]:
        return self.handle(QuerySubmitted(query, sink_site, hints or {}, ways or {}))

    def hint(self, hints: Mapping[HintKey, SiteId], cause: str) -> list[Instruction]:
        """Operators are wanted at these sites; those that can be there move."""
        return self.handle(PlacesHinted(hints, cause))

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
