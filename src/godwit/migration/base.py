"""What a state strategy is given, the steps it may yield, and the table of strategies by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, cast

from godwit.errors import ConfigError
from godwit.ids import NodeId
from godwit.model.instances import InstanceId

#: name -> (module beside this one that defines `steps`, variant)
STRATEGIES: dict[str, tuple[str, str]] = {
    "delta": ("delta", ""),
    "adhoc-query": ("adhoc_query", ""),
    "transfer": ("transfer", ""),
    "recreate-best": ("recreate", "best"),
    "recreate-average": ("recreate", "average"),
    "recreate-worst": ("recreate", "worst"),
}


@dataclass(frozen=True)
class Moved:
    """A stateful instance whose state is not where the instance now lives."""

    instance: InstanceId
    #: where the state is; None: it is lost, its node failed
    source: NodeId | None
    target: NodeId
    #: from source to target over links, both included; empty: there is none
    path: tuple[NodeId, ...] = ()
    #: the scans whose rows made the state: where a replay begins
    scans: tuple[InstanceId, ...] = ()

    @property
    def within_reach(self) -> bool:
        return self.source is not None and bool(self.path)


@dataclass(frozen=True)
class HandOver:
    """Send the instance's state from one node to another, hop by hop."""

    instance: InstanceId
    source: NodeId
    target: NodeId
    path: tuple[NodeId, ...]
    #: the new instance takes no rows until its state is there
    wait: bool
    #: pieces follow each other over the hops; False: every hop stores all of it before it sends it on
    chunked: bool


@dataclass(frozen=True)
class ReplayState:
    """Make the state again from what the sources still have.

    `share`: of how many of the replayed buffers the windows are triggered, for nothing: none ("best"), half ("average")
    or all ("worst"); SR-B, SR-A and SR-W in ISQD, Section 7.2.4.
    """

    instance: InstanceId
    target: NodeId
    scans: tuple[InstanceId, ...]
    share: str


Step = HandOver | ReplayState


class Strategy(Protocol):
    def __call__(self, moved: Moved, variant: str) -> Iterator[Step]: ...


def known(name: str) -> str:
    if name not in STRATEGIES:
        msg = f"there is no state strategy '{name}'; choose one of {', '.join(STRATEGIES)}"
        raise ConfigError(msg)
    return name


def steps(name: str, moved: Moved) -> tuple[Step, ...]:
    """The steps of a strategy for one instance. State that is lost or out of reach is replayed by every strategy."""
    module, variant = STRATEGIES[known(name)]
    if not moved.within_reach:
        return (ReplayState(moved.instance, moved.target, moved.scans, "best"),)
    strategy = cast(Strategy, import_module(f"godwit.migration.{module}").steps)
    return tuple(strategy(moved, variant))


def describe(step: Step) -> str:
    match step:
        case HandOver():
            how = "in pieces" if step.chunked else "whole, hop by hop"
            then = "new instance waits" if step.wait else "new instance runs meanwhile"
            return f"{step.instance}: state {' -> '.join(step.path)} ({how}; {then})"
        case ReplayState():
            return (
                f"{step.instance} at {step.target}: replay from {', '.join(map(str, step.scans))} ({step.share} case)"
            )
