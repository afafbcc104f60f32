"""One record for each reconfiguration, to be read afterwards (`godwit history`).

The coordinator fills in what it decided; the executor adds times and bytes, because the coordinator has no clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from godwit.control.contexts import DeploymentContext
from godwit.ids import Epoch, QueryId
from godwit.model.instances import InstanceId

#: in the order in which they happen; a reconfiguration that is taken back has no `commit`
PHASES = ("plan", "publish", "acknowledge", "commit", "revert", "state")


@dataclass(frozen=True)
class StateMoved:
    """One instance's state on its way."""

    instance: InstanceId
    source: str | None
    target: str
    hops: int
    step: str
    bytes: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class KeyPhase:
    """One phase of a migration of keys; `godwit history` shows all phases of a migration together."""

    #: the number of the migration that it is a phase of
    migration: int
    instance: str
    keys: str
    phase: str
    #: regions; the source is empty where nothing is sent
    source: str
    target: str
    #: of state that was sent; None: it has not come yet
    bytes: int | None = None
    #: from its publication until what it sent had come or, if it sends nothing, until every region worked under it
    seconds: float | None = None

    def text(self) -> str:
        way = f"{self.source} -> {self.target}" if self.source else "all regions"
        size = "not there yet" if self.bytes is None else f"{self.bytes:,} bytes"
        took = "" if self.seconds is None else f" in {self.seconds * 1000:.1f} ms"
        return f"{self.phase:<8} {way}: {size}{took}"


@dataclass(frozen=True)
class ReconfigurationRecord:
    number: int
    cause: str
    queries: tuple[QueryId, ...] = ()
    epochs: tuple[Epoch, ...] = ()
    #: how many contexts of each kind
    contexts: Mapping[str, int] = field(default_factory=dict)
    migrations: tuple[StateMoved, ...] = ()
    #: phase -> seconds it took
    phases: Mapping[str, float] = field(default_factory=dict)
    #: "running", "committed", "reverted"; "declined": nothing was done; "failed": a query cannot be run
    outcome: str = "running"
    reason: str = ""
    parked: Mapping[QueryId, str] = field(default_factory=dict)
    #: phases of migrations of keys that it is
    keys: tuple[KeyPhase, ...] = ()

    def timed(self, phase: str, seconds: float) -> ReconfigurationRecord:
        assert phase in PHASES, f"'{phase}' is not a phase"
        return replace(self, phases={**self.phases, phase: self.phases.get(phase, 0.0) + seconds})

    def with_state(self, instance: InstanceId, size: int, seconds: float) -> ReconfigurationRecord:
        """The state of an instance has arrived."""
        moved = tuple(replace(m, bytes=size, seconds=seconds) if m.instance == instance else m for m in self.migrations)
        return replace(self, migrations=moved)

    def to_json(self) -> dict[str, Any]:
        record = asdict(self)
        record["migrations"] = [{**m, "instance": str(m["instance"])} for m in record["migrations"]]
        return record

    @staticmethod
    def from_json(record: Mapping[str, Any]) -> ReconfigurationRecord:
        moved = tuple(StateMoved(**{**m, "instance": InstanceId.parse(m["instance"])}) for m in record["migrations"])
        lists = {name: tuple(record[name]) for name in ("queries", "epochs")}
        keys = tuple(KeyPhase(**phase) for phase in record.get("keys", ()))
        return ReconfigurationRecord(**{**record, **lists, "migrations": moved, "keys": keys})

    def line(self) -> str:
        """One line for the list of stories."""
        kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(self.contexts.items())) or "no contexts"
        return f"{self.number:>5}  {self.outcome:<9}  {self.cause}  ({len(self.queries)} queries; {kinds})"

    def text(self) -> str:
        """The whole record, for people."""
        lines = [f"reconfiguration {self.number}: {self.outcome}", f"  cause      {self.cause}"]
        if self.reason:
            lines.append(f"  because    {self.reason}")
        lines.append(f"  epochs     {', '.join(map(str, self.epochs)) or 'none'}")
        lines.append(f"  queries    {', '.join(self.queries) or 'none'}")
        lines.append(f"  contexts   {', '.join(f'{n} {kind}' for kind, n in sorted(self.contexts.items())) or 'none'}")
        lines += [f"  state      {_state(m)}" for m in self.migrations]
        lines += [f"  keys       migration {k.migration} of {k.keys}: {k.text()}" for k in self.keys]
        lines += [f"  parked     {query}: {why}" for query, why in sorted(self.parked.items())]
        lines += [f"  {phase:<10} {self.phases[phase] * 1000:.1f} ms" for phase in PHASES if phase in self.phases]
        return "\n".join(lines)


def count(contexts: Iterable[DeploymentContext]) -> dict[str, int]:
    return dict(sorted(Counter(type(context).__name__ for context in contexts).items()))


def _state(moved: StateMoved) -> str:
    size = "size not known" if moved.bytes is None else f"{moved.bytes:,} bytes"
    took = "" if moved.seconds is None else f" in {moved.seconds * 1000:.1f} ms"
    return f"{moved.instance}: {moved.step} {moved.source or 'lost'} -> {moved.target}, {moved.hops} hops, {size}{took}"
