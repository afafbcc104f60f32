"""The phases that strategies of key migration are made of, and the table of strategies by name.

A strategy yields phases; the control plane carries them out one after the other (`key_migrations.py`). A phase that
changes routes is an epoch, and the markers of the paper are the epoch's own, which travel in the logs behind the last
row of the old epoch. What a phase is to the regions is a `Migration` (`godwit.protocol.handover`).

    Suspend, Proceed   all rows of the query wait at their sources; they go on
    Copy               the state as of the marker goes to a shadow at the destination; the source goes on answering.
                       `dual`: rows go to both from the marker on, and what they do at the destination is not emitted
    Switch             the destination processes the keys from the marker on; `wait`: not before the state is there
    Release            state that was held back goes
    Await              until what the last phase sent has come, until every region works under its epoch, or until it is
                       time to refresh replicas
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Literal, Protocol, cast

from godwit.errors import ConfigError
from godwit.model.plan import Aggregate, Operator

#: name -> (module beside this one that defines `phases`, variant)
KEY_STRATEGIES: dict[str, tuple[str, str]] = {
    "delta": ("delta", ""),
    "falcon": ("falcon", "in-order"),
    "falcon-oop": ("falcon", "out-of-order"),
    "full-restart": ("full_restart", ""),
    "partial-pause": ("partial_pause", ""),
    "on-demand": ("on_demand", ""),
    "hot-backup": ("hot_backup", ""),
}
#: takes what the operator declares
AUTO = "auto"
#: no migration: a copy of the keys' state is kept at a site and refreshed, until they migrate there by `hot-backup`
REPLICA = "replica"


@dataclass(frozen=True)
class Suspend:
    pass


@dataclass(frozen=True)
class Proceed:
    pass


@dataclass(frozen=True)
class Copy:
    dual: bool
    #: only what has changed since the copy before
    refresh: bool = False


@dataclass(frozen=True)
class Switch:
    wait: bool = False
    ordered: bool = True
    #: key by key, as rows ask for them
    paced: bool = False
    #: the source keeps the state until every region has stopped the keys, and is told so
    held: bool = False


@dataclass(frozen=True)
class Release:
    """Every region has stopped the keys: their state may go."""


@dataclass(frozen=True)
class Await:
    what: Literal["state", "regions", "interval"]


@dataclass(frozen=True)
class Cancel:
    """The copy is given up; the source goes on as if nothing had been."""


Phase = Suspend | Proceed | Copy | Switch | Release | Await | Cancel


class KeyStrategy(Protocol):
    def __call__(self, variant: str) -> Iterator[Phase]: ...


def chosen(name: str, operator: Operator) -> str:
    """The strategy that `auto` stands for, or the named one; ConfigError if the operator cannot be moved by it."""
    kind = type(operator).__name__
    if name == AUTO and operator.needs_order:
        return "falcon"  # every row is answered: until its state is there, the source should go on doing so
    if name == AUTO:
        return {"merge": "delta", "dual": "falcon", "wait": "partial-pause"}[operator.late_state]
    if name not in KEY_STRATEGIES and name != REPLICA:
        msg = f"there is no strategy '{name}' for keys; choose one of {', '.join([AUTO, *KEY_STRATEGIES])}"
        raise ConfigError(msg)
    if name == "delta" and operator.late_state != "merge":
        msg = f"{kind} cannot run before its state is there, as 'delta' would have it; use 'falcon' or 'auto'"
        raise ConfigError(msg)
    if name in ("hot-backup", REPLICA) and isinstance(operator, Aggregate) and operator.window.kind == "session":
        msg = f"'{name}' sends what is new, and sessions grow into each other; use 'delta', 'falcon' or 'auto'"
        raise ConfigError(msg)
    return name


def phases(name: str) -> tuple[Phase, ...]:
    module, variant = ("hot_backup", REPLICA) if name == REPLICA else KEY_STRATEGIES[name]
    strategy = cast(KeyStrategy, import_module(f"godwit.migration.{module}").phases)
    return tuple(strategy(variant))
