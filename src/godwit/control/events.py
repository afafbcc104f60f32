"""Events that the coordinator takes, and instructions that it gives to the executor: small frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from godwit.control.contexts import DeploymentContext
from godwit.control.reconfigurations import ReconfigurationRecord
from godwit.ids import DeviceId, Epoch, QueryId, RegionId, SiteId, StreamId
from godwit.migration.base import Step
from godwit.migration.key_migrations import RouteKeys
from godwit.model.changes import Change
from godwit.model.deployment import Delta
from godwit.model.instances import InstanceId
from godwit.model.keys import KeySet
from godwit.model.plan import Query, Stream
from godwit.placement.rules.base import HintKey, Ways
from godwit.protocol.handover import Migration

# -- events


@dataclass(frozen=True)
class ChangesArrived:
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class QuerySubmitted:
    query: Query
    #: where its results leave; None: the site with the most capacity in the cloud
    sink: SiteId | None = None
    #: where admission wants its instances, and over which sites their rows
    hints: Mapping[HintKey, SiteId] = field(default_factory=dict)
    ways: Mapping[HintKey, Ways] = field(default_factory=dict)


@dataclass(frozen=True)
class PlacesHinted:
    """Operators are to run elsewhere: they move there if they can."""

    hints: Mapping[HintKey, SiteId]
    cause: str


@dataclass(frozen=True)
class PlacedByHand:
    """Instances are pinned to these sites, also through later changes, as long as the sites can host them."""

    placement: Mapping[InstanceId, SiteId]
    cause: str


@dataclass(frozen=True)
class RegionEvacuated:
    """The region is silent: what others feed, and has room elsewhere, is placed there."""

    region: RegionId


@dataclass(frozen=True)
class QueryWithdrawn:
    query: QueryId


@dataclass(frozen=True)
class PlanChanged:
    """A version of a query ends; another one, with another plan, goes on with its state."""

    old: QueryId
    query: Query
    sink: SiteId | None = None
    hints: Mapping[HintKey, SiteId] = field(default_factory=dict)
    #: rows wait until the state is there
    wait: bool = False
    #: queries that share operators with it, and go over in the same epoch: all of them, or none
    others: tuple[PlanChanged, ...] = ()
    #: queries that were withdrawn while they were tapped, and end with it
    ends: tuple[QueryId, ...] = ()

    @property
    def changes(self) -> tuple[PlanChanged, ...]:
        return self, *self.others


@dataclass(frozen=True)
class QueryAdjusted:
    """A query's row says this from now on; nothing moves."""

    query: QueryId
    #: in which order new rows probe the other streams; empty: it has no probing join
    probes: tuple[str, ...]
    #: the version that it is to go over to; None: to none
    successor: Query | None


@dataclass(frozen=True)
class StreamDeclared:
    """Queries may read this stream from now on."""

    stream: Stream


@dataclass(frozen=True)
class DeviceFeeds:
    """The device sends rows of these streams from now on."""

    device: DeviceId
    streams: tuple[StreamId, ...]


@dataclass(frozen=True)
class DevicesForgotten:
    """These devices have left, and every region has read all that they sent."""

    devices: frozenset[DeviceId]


@dataclass(frozen=True)
class RegionAcked:
    """The region works under this epoch or a later one."""

    region: RegionId
    epoch: Epoch


@dataclass(frozen=True)
class HandoverDone:
    """The state that was announced with an epoch has reached its instance."""

    instance: InstanceId
    epoch: Epoch


@dataclass(frozen=True)
class KeysAsked:
    """Keys of a stateful operator are to go to a site, by a strategy."""

    query: QueryId
    operator: int
    keys: KeySet
    site: SiteId
    strategy: str
    #: it begins when `KeysDue` says so
    held: bool = False


@dataclass(frozen=True)
class KeysDue:
    """Migrations of an operator's keys that were held may begin."""

    query: QueryId
    operator: int


@dataclass(frozen=True)
class ReplicasDue:
    """Replicas of keys are to be refreshed; for the control plane, not the coordinator."""


@dataclass(frozen=True)
class KeysArrived:
    """State of keys that a phase of a migration sent has come; for the control plane, not the coordinator."""

    move: Migration


@dataclass(frozen=True)
class RegionLost:
    region: RegionId


@dataclass(frozen=True)
class RegionBack:
    region: RegionId


@dataclass(frozen=True)
class TimedOut:
    """Not all acknowledgements of an epoch came in time."""

    epoch: Epoch


Event = (
    ChangesArrived
    | RegionEvacuated
    | QuerySubmitted
    | QueryWithdrawn
    | PlanChanged
    | QueryAdjusted
    | PlacesHinted
    | PlacedByHand
    | StreamDeclared
    | DeviceFeeds
    | DevicesForgotten
    | RegionAcked
    | HandoverDone
    | KeysAsked
    | KeysDue
    | KeysArrived
    | ReplicasDue
    | RouteKeys
    | RegionLost
    | RegionBack
    | TimedOut
)
#: what waits for the next batch, beside changes of the topology
Request = (
    QuerySubmitted
    | RegionEvacuated
    | QueryWithdrawn
    | PlanChanged
    | QueryAdjusted
    | DeviceFeeds
    | DevicesForgotten
    | PlacesHinted
    | PlacedByHand
    | StreamDeclared
    | RouteKeys
)

# -- instructions


@dataclass(frozen=True)
class Publish:
    """Make the delta the next epoch and publish it to all regions."""

    epoch: Epoch
    delta: Delta
    contexts: tuple[DeploymentContext, ...]
    #: what happens to the state of moved instances
    steps: tuple[Step, ...]
    #: which of the reconfiguration's stages this is, and of how many
    stage: tuple[int, int] = (1, 1)
    #: the instances that change region with this epoch
    moves: tuple[Migration, ...] = ()
    #: what has happened to the topology: with the first stage
    changes: tuple[Change, ...] = ()
    #: requests of users that plans must respect: with the first stage; phases of migrations of keys: with the last
    requests: tuple[Request, ...] = ()


@dataclass(frozen=True)
class Revert:
    """Back to the last stable deployment, as a new epoch."""

    epoch: Epoch
    stable: Epoch
    delta: Delta
    contexts: tuple[DeploymentContext, ...]
    steps: tuple[Step, ...]
    reason: str
    moves: tuple[Migration, ...] = ()


@dataclass(frozen=True)
class EpochCommitted:
    """All regions work under this epoch: it is the one to go back to from now on."""

    epoch: Epoch


@dataclass(frozen=True)
class Park:
    """The query has no place: its rows wait, its state stays."""

    query: QueryId
    reason: str


@dataclass(frozen=True)
class Resume:
    query: QueryId


@dataclass(frozen=True)
class Record:
    """Keep the record of a reconfiguration (again, if an earlier version was kept)."""

    record: ReconfigurationRecord


Instruction = Publish | Revert | EpochCommitted | Park | Resume | Record
