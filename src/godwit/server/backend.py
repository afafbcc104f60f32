"""What the routes need of a fleet: one whose regions run in this process (`embedded.py`), or one of processes
(`processes.py`). Names are those of `Fleet` where it has them."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from godwit.api.topology_store import missing
from godwit.control.commands import Answer, ChangeTopology, Command, MigrateKeys
from godwit.errors import ConfigError
from godwit.ids import DeviceId, QueryId, RegionId, StreamId
from godwit.ingest.together import Parcel
from godwit.model.changes import Change
from godwit.model.deployment import Deployment
from godwit.model.explain import explain
from godwit.model.instances import InstanceId
from godwit.model.plan import Column, Query, Stream
from godwit.model.topology import Topology
from godwit.observe.status import Status
from godwit.replan.explain import explained
from godwit.replan.probing import explained as explained_probes
from godwit.replan.probing import probes
from godwit.replan.replacement import replacement
from godwit.replan.wishes import PlanWish
from godwit.sql import compile_query
from godwit.storage.log import Segment

#: called with a region, a shape and the result segments of a commit, by a thread that must not wait
Committed = Callable[[RegionId, str, Sequence[Segment]], None]
#: called with a record of the history
Told = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class CommandProgress:
    """How far what was asked for has come."""

    #: commands that are written, and those of them that have no answer yet
    command: int
    waiting: tuple[int, ...]
    #: the newest epoch that is published, and the newest that is in force everywhere
    published: int
    in_force: int
    #: region -> the epoch that it works under
    regions: Mapping[str, int] = field(default_factory=dict)


class Backend(ABC):
    """A fleet behind a server."""

    #: "embedded" or "processes"
    kind: str

    # --- what is there

    @property
    @abstractmethod
    def deployment(self) -> Deployment:
        """What is published."""

    @property
    @abstractmethod
    def topology(self) -> Topology: ...

    @property
    @abstractmethod
    def queries(self) -> list[QueryId]: ...

    @property
    def functions(self) -> Collection[str]:
        """Functions that queries may call; they are declared in Python, where the fleet runs."""
        return ()

    @abstractmethod
    def execution(self, query: QueryId) -> Query: ...

    @abstractmethod
    def executions(self, query: QueryId) -> list[Query]:
        """Those whose results are the query's, the newest last."""

    @abstractmethod
    def segments(self, shape: str) -> Mapping[RegionId, Sequence[Segment]]:
        """Committed results of a shape, as each region has committed them."""

    @abstractmethod
    def output(self, query: Query) -> tuple[Column, ...]: ...

    def explain(self, query: QueryId) -> str:
        runs = self.execution(query)
        return explain(runs, self.deployment.parked.get(runs.id))

    # --- commands

    @abstractmethod
    def execute(self, command: Command) -> tuple[int, int]:
        """Have a command carried out: its number, and the epoch that brought it."""

    @abstractmethod
    def post(self, command: Command) -> int: ...

    @abstractmethod
    def answer_of(self, number: int) -> Answer | None: ...

    @abstractmethod
    def known_command(self, number: int) -> bool: ...

    @abstractmethod
    def stream(self, name: str, schema: str, **options: Any) -> Stream: ...

    def table(self, name: str, schema: str, *, key: Sequence[str], disorder: str | None, site: str | None) -> Stream:
        self._not_here("reference tables")

    # --- dry runs

    @abstractmethod
    def explain_command(self, command: ChangeTopology | MigrateKeys) -> str:
        """What a change of the topology, or a migration of keys, would do."""

    def explain_change(self, changes: Sequence[Change]) -> str:
        return self.explain_command(ChangeTopology(tuple(changes)))

    def explain_replan(self, query: QueryId, wish: PlanWish) -> str:
        now = self.execution(query)
        node = probes(now.shape.plan)
        if node is not None:
            return explained_probes(now, node, wish.order)
        return explained(now, wish, self.deployment.streams)

    def explain_replace(self, query: QueryId, sql: str) -> str:
        """What of another text would go on, and what would begin again."""
        streams = self.deployment.streams
        new = compile_query(sql, streams, query, (), self.functions)
        return replacement(self.execution(query), new, streams).explained()

    # --- rows

    @abstractmethod
    def push(self, parcel: Parcel) -> bool:
        """Whether it was taken; which of its rows did not fit is in `parcel.dead` then."""

    def push_together(self, parcels: Sequence[Parcel]) -> list[bool | None]:
        """Of each, whether it was taken; None: it must be pushed alone."""
        return [None] * len(parcels)

    def is_known(self, stream: StreamId, device: DeviceId, sequence: int) -> bool:
        """Whether rows of that number have come before; False: perhaps not."""
        return False

    @abstractmethod
    def unread(self, stream: str) -> int: ...

    @abstractmethod
    def tell_time(self, stream: str, clocks: Mapping[DeviceId, int]) -> None: ...

    @abstractmethod
    def close_sources(self) -> None: ...

    @abstractmethod
    def close_device(self, device: DeviceId) -> None: ...

    def reset_clock(self, device: DeviceId) -> None:
        self._not_here("resetting a device's clock")

    def notify_handover(self, device: str, site: str) -> None:
        self._not_here("source mobility")

    def dead_letters(self) -> list[dict[str, Any]]:
        self._not_here("reading dead letters")

    def change_table(self, table: str, rows: Any, since: dt.datetime | None, how: str) -> int:
        """`how`: upsert, delete or replace."""
        self._not_here("reference tables")

    def table_rows(self, table: str) -> list[dict[str, Any]]:
        self._not_here("reference tables")

    # --- looks

    @abstractmethod
    def status(self) -> Status: ...

    @abstractmethod
    def waits(self, query: QueryId) -> list[str]:
        """What the query's rows wait for, in words."""

    @abstractmethod
    def history(self) -> list[dict[str, Any]]: ...

    @abstractmethod
    def moved(self, epochs: Sequence[int]) -> list[dict[str, Any]] | None:
        """What these epochs have changed; None: they are not kept any more."""

    @abstractmethod
    def progress(self) -> CommandProgress: ...

    @abstractmethod
    def check(self) -> None:
        """Raise if something has failed, or does not run."""

    @abstractmethod
    def hints(self) -> tuple[Mapping[QueryId, str], Mapping[InstanceId, str]]:
        """What users have said of places: sinks of queries, and instances that were placed by hand."""

    def late(self, query: QueryId, limit: int) -> list[dict[str, Any]]:
        self._not_here("reading late rows")

    def verdict(self, query: QueryId) -> dict[str, Any]:
        self._not_here("the oracle")

    @abstractmethod
    def process_available(self) -> None: ...

    @abstractmethod
    def follow(self, committed: Committed, told: Told, listened: Callable[[], bool]) -> None:
        """Publish commits and records of the history from now on; `listened`: whether there are subscribers."""

    def stop(self) -> None:  # noqa: B027 - an embedded fleet is stopped by its opener
        """Let go of what belongs to the server."""

    def _not_here(self, what: str) -> NoReturn:
        msg = f"there is no support for {what} in a fleet of processes; serve an embedded fleet, or do without"
        raise ConfigError(msg)


def table_of(streams: Mapping[StreamId, Stream], name: str) -> Stream | None:
    """A reference table by its name."""
    found = streams.get(StreamId(name))
    return found if found is not None and found.key else None


def add_topology(fleet: Backend, topology: Topology) -> None:
    """Add everything of a topology that is not there yet."""
    if new := missing(fleet.topology, topology):
        fleet.execute(ChangeTopology(tuple(new)))
