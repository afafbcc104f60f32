"""Instances as values: one operator of one query, for everything, for one device, or for one key set.

`str(instance)` is the form that people read and write (`occupancy/2`, `occupancy/1@train-7`, `occupancy/2#hot`);
`InstanceId.parse` is its inverse. Programs use the value: nothing is told apart by splitting text.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from godwit.errors import DeploymentError
from godwit.ids import DeviceId, QueryId


class Scope(NamedTuple):
    """Which rows an instance is for."""

    kind: Literal["once", "device", "keys"]
    #: the device, or the name of the key set; empty: all rows
    name: str = ""


#: an operator that runs once, for all rows of its query
ONCE = Scope("once")


class InstanceId(NamedTuple):
    """One operator of one query in one scope."""

    query: QueryId
    #: its position in the query's plan
    operator: int
    scope: Scope = ONCE

    @property
    def device(self) -> DeviceId | None:
        """The device whose rows it is for, if it is for one device's."""
        return DeviceId(self.scope.name) if self.scope.kind == "device" else None

    def __str__(self) -> str:
        mark = {"once": "", "device": "@", "keys": "#"}[self.scope.kind]
        return f"{self.query}/{self.operator}{mark}{self.scope.name}"

    @staticmethod
    def parse(text: str) -> InstanceId:
        """The instance that a user named; DeploymentError says how to write one."""
        name, mark, scope = text, "", ""
        for candidate in "@#":
            before, found, after = text.partition(candidate)
            if found:
                name, mark, scope = before, found, after
                break
        query, _, operator = name.rpartition("/")
        if not query or not operator.isdecimal() or (mark and not scope):
            msg = f"'{text}' names no instance; write query/operator, query/operator@device or query/operator#keys"
            raise DeploymentError(msg)
        kind: Literal["once", "device", "keys"] = "device" if mark == "@" else "keys" if mark else "once"
        return InstanceId(QueryId(query), int(operator), Scope(kind, scope))


def instance_id(query: QueryId, operator: int, device: DeviceId | None = None) -> InstanceId:
    """The instance of an operator for all rows, or for one device's."""
    return InstanceId(query, operator, ONCE if device is None else Scope("device", device))
