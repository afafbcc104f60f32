"""A scenario: ground, streams, devices, sources, queries and a trace in one YAML file. `godwit run` runs it.

    topology: topology.yaml              # or the same keys inline; or `world:` makes ground and trace up
    streams:
      - {name: passengers, schema: "train string, boarded int, ts timestamp", device: train, disorder: 2 seconds}
    devices:
      - {id: t1, site: west, streams: [passengers]}
    sources:
      - {stream: passengers, replay: counts.jsonl}
    queries:
      - {name: busy, sql: "SELECT train, boarded, ts FROM passengers WHERE boarded > 8", sink: cloud}
    trace: {file: trace.jsonl, speed: 10}

Unknown keys are refused; faults are reported all together, each with its place. Paths are relative to the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import sqlglot
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from sqlglot import exp
from sqlglot.errors import SqlglotError

from godwit import names
from godwit.errors import ConfigError, GodwitError
from godwit.ids import StreamId
from godwit.model.plan import Column, Stream
from godwit.model.tables import reference_table
from godwit.model.topology import Topology
from godwit.model.topology_file import load_topology
from godwit.scenario.connectors import KafkaSourceSpec, MqttSourceSpec, NatsSourceSpec, PositionsSpec, SinkSpec
from godwit.sql.duration import microseconds
from godwit.sql.fault import SqlFault
from godwit.validation import worded
from godwit.yaml_files import read_text, read_yaml, to_yaml

Name = Annotated[str, Field(min_length=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StreamSpec(_Strict):
    """As `fleet.stream` takes it."""

    name: Name
    schema_: Annotated[str, Field(alias="schema", min_length=1)]
    time: str = "ts"
    device: str | None = None
    disorder: str | None = None
    idle: str | None = None
    #: how far ahead of the wall clock its rows may be; null: any distance
    ahead: str | None = "1 day"
    #: where a stream without a device column is attached
    site: str | None = None
    #: what one device sends, for admission, until it has been measured
    mbps: Annotated[float | None, Field(ge=0, allow_inf_nan=False)] = None

    def value(self) -> Stream:
        """The declaration as a value, without Spark."""
        disorder = microseconds(self.disorder) if self.disorder else 0
        idle = microseconds(self.idle) / 1e6 if self.idle else None
        ahead = microseconds(self.ahead) if self.ahead else None
        found = columns(self.schema_)
        return Stream(StreamId(self.name), found, self.time, self.device, disorder, idle, self.mbps, ahead)


class TableSpec(_Strict):
    """As `fleet.table` takes it, and the file that it follows."""

    name: Name
    schema_: Annotated[str, Field(alias="schema", min_length=1)]
    key: str | list[str]
    disorder: str | None = None
    site: str | None = None
    #: .csv, .json, .jsonl or .parquet
    file: Path | None = None

    def value(self) -> Stream:
        """The declaration as a value, without Spark."""
        key = (self.key,) if isinstance(self.key, str) else tuple(self.key)
        disorder = microseconds(self.disorder) if self.disorder else 0
        return reference_table(StreamId(self.name), columns(self.schema_), key, disorder)


class DeviceSpec(_Strict):
    id: Name
    site: str | None = None
    #: the streams it feeds; none named: all that have a device column
    streams: list[Name] = []


class SourceSpec(_Strict):
    """Recorded files, rows that are made up, or a broker's: exactly one of `replay`, `generator`, `mqtt`, `nats` and
    `kafka`."""

    stream: Name
    mqtt: MqttSourceSpec | None = None
    nats: NatsSourceSpec | None = None
    kafka: KafkaSourceSpec | None = None
    #: of a broker: what the source is called there (default: the stream and its place in the file)
    name: str | None = None
    #: of a broker: position reports attach devices
    positions: PositionsSpec | None = None
    replay: str | list[str] | None = None
    #: N times as fast as it happened; left out: as fast as the regions read
    speed: Annotated[float | None, Field(gt=0)] = None
    generator: Literal["passengers", "positions", "readings"] | None = None
    #: for passengers: the stops, as `godwit mobility` writes them
    calls: Path | None = None
    seed: int = 7
    period_ms: Annotated[int, Field(gt=0)] = 1000
    disorder_ms: Annotated[int, Field(ge=0)] = 500

    @model_validator(mode="after")
    def _one_of(self) -> SourceSpec:
        if sum(one is not None for one in (self.replay, self.generator, self.mqtt, self.nats, self.kafka)) != 1:
            msg = "give one of replay (files), generator (passengers, positions, readings), mqtt, nats and kafka"
            raise ValueError(msg)
        return self


class QuerySpec(_Strict):
    name: Name
    sql: str | None = None
    file: Path | None = None
    #: the site at which results leave
    sink: str | None = None
    write_to: SinkSpec = SinkSpec()

    @model_validator(mode="after")
    def _one_of(self) -> QuerySpec:
        if (self.sql is None) == (self.file is None):
            msg = "give either sql (the text) or file (its path)"
            raise ValueError(msg)
        return self


class TraceSpec(_Strict):
    """A trace file of ours, or a folder in NebulaStream's formats."""

    file: Path
    speed: Annotated[float, Field(gt=0)] = 1.0
    #: how long a device is out of reach at a hand-over
    gap_ms: Annotated[int, Field(ge=0)] = 0


class WorldSpec(_Strict):
    """A made-up world: its towers become the topology, its movements the trace."""

    kind: Literal["ring", "city", "field"] = "ring"
    devices: Annotated[int, Field(gt=0)] = 24
    seconds: Annotated[int, Field(gt=0)] = 60
    speedup: Annotated[float, Field(gt=0, le=1000)] = 10.0
    regions: Annotated[int, Field(gt=0)] = 2
    gap_ms: Annotated[int, Field(ge=0)] = 0
    seed: int = 7


class Scenario(_Strict):
    """The whole file."""

    name: str = ""
    topology: Path | dict[str, Any] | None = None
    world: WorldSpec | None = None
    streams: Annotated[list[StreamSpec], Field(min_length=1)]
    tables: list[TableSpec] = []
    devices: list[DeviceSpec] = []
    sources: list[SourceSpec] = []
    queries: list[QuerySpec] = []
    trace: TraceSpec | None = None
    #: how much of the trace's time is played; left out: all of it
    duration: str | None = None
    rule: str = "bottom-up"
    redeployment: str = "incremental"
    state: str = "delta"
    #: by which weights queries are let in; true: the paper's, false: all are; left out: where sites give capacities
    admission: bool | Literal["paper", "pack", "balance"] | None = None
    #: let the re-optimiser move operators when rates drift
    reoptimise: bool = False
    #: the folder that paths are relative to
    home: Annotated[Path, Field(exclude=True)] = Path(".")

    def at(self, path: str | Path) -> Path:
        return self.home / path

    def ground(self) -> Topology | None:
        """The topology the file gives or names; None where `world` makes it."""
        if isinstance(self.topology, Path):
            return load_topology(self.at(self.topology))
        return None if self.topology is None else load_topology(to_yaml(self.topology) + "\n")

    def text_of(self, query: QuerySpec) -> str:
        """A query's SQL."""
        return query.sql if query.sql is not None else read_text(self.at(query.file or ""))

    def values(self) -> dict[StreamId, Stream]:
        """All declared streams, without Spark."""
        declared: list[Stream] = [*(s.value() for s in self.streams), *(t.value() for t in self.tables)]
        return {stream.id: stream for stream in declared}


def columns(ddl: str) -> tuple[Column, ...]:
    """`name type, name type` as Spark's DDL has it, read without Spark."""
    try:
        tree = sqlglot.parse_one(f"CREATE TABLE t ({ddl})", read="spark")
    except SqlglotError as error:
        msg = f"'{ddl}' is not a schema: {str(error).splitlines()[0]}; write for example 'train string, ts timestamp'"
        raise ConfigError(msg) from None
    found = [(d.name, d.kind) for d in tree.this.expressions if isinstance(d, exp.ColumnDef)]
    if not found or len(found) != len(tree.this.expressions) or any(kind is None for _, kind in found):
        msg = f"'{ddl}' is not a schema; write for example 'train string, ts timestamp'"
        raise ConfigError(msg)
    return tuple(Column(name, _type(kind.sql(dialect="spark"))) for name, kind in found if kind is not None)


def _type(text: str) -> str:
    return text.lower().replace(", ", ",").replace(": ", ":")


def load_scenario(path: Path, *, serving: bool = False) -> Scenario:
    """Read and check a scenario file; a ConfigError lists every fault with its place. `serving`: for a fleet that may
    have its topology already."""
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise _fail(path, ["the file must be a mapping with streams, topology (or world), queries and so on"])
    try:
        scenario = Scenario.model_validate({**content, "home": path.parent})
    except ValidationError as error:
        raise _fail(path, worded(error.errors(), Scenario)) from None
    faults = list(_faults(scenario, serving))
    if faults:
        raise _fail(path, faults)
    return scenario


def _faults(scenario: Scenario, serving: bool) -> Iterator[str]:
    """What a schema cannot say: names that were not declared, things that do not go together."""
    if (scenario.topology is None) == (scenario.world is None) and not serving:
        yield "topology: give either topology (a file or inline) or world (made up)"
    if scenario.world is not None and scenario.trace is not None:
        yield "trace: a world brings its own; remove one of the two"
    yield from _misnamed(scenario)
    streams = [s.name for s in scenario.streams]
    yield from _twice("streams", [*streams, *(t.name for t in scenario.tables)])
    yield from _twice("queries", [q.name for q in scenario.queries])
    yield from _twice("devices", [d.id for d in scenario.devices])
    uses = [(f"sources[{i}].stream", s.stream) for i, s in enumerate(scenario.sources)]
    uses += [(f"devices[{i}].streams", name) for i, d in enumerate(scenario.devices) for name in d.streams]
    for place, stream in uses:
        if stream not in streams:
            yield f"{place}: '{stream}' is not declared; streams are {', '.join(streams)}"
    for i, source in enumerate(scenario.sources):
        if source.generator == "passengers" and source.calls is None and scenario.world is None:
            yield f"sources[{i}].calls: passengers need the stops; name the calls.jsonl of `godwit mobility`"
        if source.generator == "positions" and scenario.world is None:
            yield f"sources[{i}].generator: positions come from a world; add world, or replay recorded ones"
    for i, spec in enumerate(scenario.streams):
        yield from _stream_faults(f"streams[{i}]", spec)
    yield from _ground_faults(scenario)
    if scenario.duration is not None:
        try:
            microseconds(scenario.duration)
        except (GodwitError, SqlFault) as error:
            yield f"duration: {error}"


def _ground_faults(scenario: Scenario) -> Iterator[str]:
    """Before Spark is started, which takes longer than to correct them."""
    try:
        ground = scenario.ground()
    except GodwitError as error:
        yield f"topology: {error}"
        return
    if ground is None:
        return
    uses = [(f"devices[{i}].site", d.site) for i, d in enumerate(scenario.devices)]
    uses += [(f"queries[{i}].sink", q.sink) for i, q in enumerate(scenario.queries)]
    for place, site in uses:
        if site is not None and site not in ground.sites:
            yield f"{place}: '{site}' is not a site of the topology; sites are {', '.join(ground.sites)}"


def _stream_faults(place: str, spec: StreamSpec) -> Iterator[str]:
    try:
        have = [column.name for column in spec.value().columns]
    except (GodwitError, SqlFault) as error:
        yield f"{place}: {error}"
        return
    for key, column in (("time", spec.time), ("device", spec.device)):
        if column is not None and column not in have:
            yield f"{place}.{key}: there is no column '{column}'; the schema has {', '.join(have)}"


def _misnamed(scenario: Scenario) -> Iterator[str]:
    kinds: list[tuple[str, names.Kind, list[str]]] = [
        ("streams", "stream", [s.name for s in scenario.streams]),
        ("devices", "device", [d.id for d in scenario.devices]),
        ("queries", "query", [q.name for q in scenario.queries]),
    ]
    for place, kind, found in kinds:
        for i, name in enumerate(found):
            problem = names.fault(kind, name) or names.reserved(kind, name)
            if problem is not None:
                yield f"{place}[{i}]: {problem}"


def _twice(what: str, names: list[str]) -> Iterator[str]:
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"{what}: '{name}' is declared twice; give each its own name"


def _fail(path: Path, faults: list[str]) -> ConfigError:
    lines = "\n  ".join(faults)
    return ConfigError(f"{path} does not hold together:\n  {lines}")
