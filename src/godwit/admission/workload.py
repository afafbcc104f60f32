"""A planning problem as a YAML file: hosts, links, base streams and queries.

    weights: paper                      # or pack (save resources, leave hosts idle), balance (spread the load)
    hosts:
      - {id: edge-1, cpu: 100, nic: 60}               # nic, or nic_in and nic_out
    links:                              # leave out: every pair of hosts is joined as fast as their NICs
      - {between: [edge-1, cloud], bandwidth: 50}     # both ways; or from: and to: for one way
    streams:
      - {id: cars, rate: 10, homes: [edge-1]}
    queries:
      - id: fast-cars
        plan: {filter: {input: cars, expression: speed > 30, selectivity: 0.2}}
      - id: meetings
        plan:
          join:
            inputs: [cars, trains]      # names of base streams, or plans in turn
            where: [{between: [0, 1], predicate: cars.site = trains.site, selectivity: 0.003}]

A plan is the name of a base stream or one of filter, project, aggregate (input, expression, selectivity, cost,
window) and join (inputs, where, selectivity, cost, window; or just the list of inputs). Equal plans are the same
stream.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from godwit.admission.model import BaseStream, Host, HostLink
from godwit.admission.rates import Base, JoinSpec, Node, Predicate, RateQuery, Unary, signature_of
from godwit.errors import ConfigError
from godwit.validation import worded
from godwit.yaml_files import read_yaml

_UNARY = ("filter", "project", "aggregate")
_M = TypeVar("_M", bound=BaseModel)


@dataclass(frozen=True)
class Workload:
    """What the file says, as the planner's own values."""

    hosts: tuple[Host, ...]
    links: tuple[HostLink, ...] | None
    streams: tuple[BaseStream, ...]
    queries: tuple[RateQuery, ...]
    weights: str


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class _Host(_Entry):
    id: str
    cpu: float = Field(ge=0, allow_inf_nan=False)
    nic: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    nic_in: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    nic_out: float | None = Field(default=None, ge=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _has_nic(self) -> _Host:
        if self.nic is None and (self.nic_in is None or self.nic_out is None):
            msg = "give nic, or both nic_in and nic_out"
            raise ValueError(msg)
        return self

    def value(self) -> Host:
        into = self.nic if self.nic_in is None else self.nic_in
        out = self.nic if self.nic_out is None else self.nic_out
        assert into is not None
        assert out is not None
        return Host(self.id, self.cpu, into, out)


class _Link(_Entry):
    bandwidth: float = Field(ge=0, allow_inf_nan=False)
    between: tuple[str, str] | None = None
    source: str | None = Field(default=None, alias="from")
    target: str | None = Field(default=None, alias="to")

    @model_validator(mode="after")
    def _has_ends(self) -> _Link:
        if (self.between is None) == (self.source is None or self.target is None):
            msg = "give either between: [a, b] (both ways) or from: and to: (one way)"
            raise ValueError(msg)
        return self

    def values(self) -> list[HostLink]:
        if self.between is not None:
            one, other = self.between
            return [HostLink(one, other, self.bandwidth), HostLink(other, one, self.bandwidth)]
        assert self.source is not None
        assert self.target is not None
        return [HostLink(self.source, self.target, self.bandwidth)]


class _Stream(_Entry):
    id: str
    rate: float = Field(ge=0, allow_inf_nan=False)
    homes: tuple[str, ...] = ()


class _Query(_Entry):
    id: str
    plan: Any


class _File(_Entry):
    weights: Literal["paper", "pack", "balance"] = "paper"
    hosts: list[_Host]
    links: list[_Link] | None = None
    streams: list[_Stream]
    queries: list[_Query] = []


class _Unary(_Entry):
    input: Any
    expression: str
    selectivity: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    cost: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    window: float = Field(default=0.0, ge=0, allow_inf_nan=False)


class _Where(_Entry):
    between: tuple[int, int]
    predicate: str
    selectivity: float = Field(default=0.003, ge=0, allow_inf_nan=False)


class _Join(_Entry):
    inputs: list[Any]
    where: list[_Where] = []
    selectivity: float = Field(default=0.003, ge=0, allow_inf_nan=False)
    cost: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    window: float = Field(default=10.0, ge=0, allow_inf_nan=False)


def read(path: Path) -> Workload:
    """Read a file; every fault names its place in the file."""
    return parse(read_yaml(path, what="workload "), str(path))


def parse(data: Any, name: str = "workload") -> Workload:
    """Turn the file's content into values."""
    if not isinstance(data, dict):
        msg = f"{name}: expected a mapping with hosts, streams and queries at the top"
        raise ConfigError(msg)
    file = _valid(_File, data, name)
    for kind, ids in (("host", [h.id for h in file.hosts]), ("stream", [s.id for s in file.streams]),
                      ("query", [q.id for q in file.queries])):  # fmt: skip
        _no_twins(name, kind, ids)
    links = None if file.links is None else tuple(link for entry in file.links for link in entry.values())
    return Workload(
        tuple(host.value() for host in file.hosts),
        links,
        tuple(BaseStream(s.id, s.rate, s.homes) for s in file.streams),
        tuple(RateQuery(q.id, _node(q.plan, f"{name}: queries.{q.id}.plan")) for q in file.queries),
        file.weights,
    )


def _no_twins(name: str, kind: str, ids: list[str]) -> None:
    twice = sorted({one for one in ids if ids.count(one) > 1})
    if twice:
        msg = f"{name}: {kind} id '{twice[0]}' appears twice; give every {kind} its own"
        raise ConfigError(msg)


def _valid(model: type[_M], data: Any, place: str) -> _M:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        msg = f"{place}: " + "; ".join(worded(error.errors(), model))
        raise ConfigError(msg) from error


def _node(data: Any, place: str) -> Node:
    if isinstance(data, str):
        return Base(data)
    if not isinstance(data, dict) or len(data) != 1 or next(iter(data)) not in (*_UNARY, "join"):
        msg = f"{place}: expected the name of a base stream or one of {', '.join(_UNARY)}, join"
        raise ConfigError(msg)
    kind, body = next(iter(data.items()))
    if kind == "join":
        return _join(body, f"{place}.join")
    given = _valid(_Unary, body, f"{place}.{kind}")
    below = _node(given.input, f"{place}.{kind}.input")
    signature = f"{kind}[{given.expression}]({signature_of(below)})"
    return Unary(below, signature, given.selectivity, given.cost, kind, given.window)


def _join(body: Any, place: str) -> JoinSpec:
    given = _valid(_Join, {"inputs": body} if isinstance(body, list) else body, place)
    inputs = tuple(_node(entry, f"{place}.inputs.{number}") for number, entry in enumerate(given.inputs))
    for number, given_one in enumerate(given.where):
        _check_ends(given_one.between, len(inputs), f"{place}.where.{number}")
    predicates = tuple(Predicate(*one.between, one.predicate, one.selectivity) for one in given.where)
    return JoinSpec(inputs, predicates, given.selectivity, given.cost, given.window)


def _check_ends(ends: Iterable[int], inputs: int, place: str) -> None:
    if any(not 0 <= end < inputs for end in ends) or len(set(ends)) < 2:
        msg = f"{place}: between must name two different inputs by position, 0 to {inputs - 1}"
        raise ConfigError(msg)
