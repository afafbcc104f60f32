"""Another text for a running query: checked, explained, and put in force by one epoch like any change of plan."""

from __future__ import annotations

from dataclasses import replace

from godwit.api.core import FleetCore
from godwit.api.plan_versions import PlanVersions
from godwit.errors import DeploymentError
from godwit.ids import QueryId
from godwit.model.plan import Query
from godwit.model.scattering import scattered
from godwit.replan.replacement import Replacement, replacement
from godwit.sql import compile_query


class Replacing:
    def __init__(self, fleet: FleetCore, plans: PlanVersions) -> None:
        self._fleet, self._plans = fleet, plans

    def replace(self, name: QueryId, sql: str, again: bool) -> None:
        version = QueryId(f"{name}~{self._fleet.control.command}")
        if again and version in self._fleet.deployment.queries:
            return
        found = self.planned(name, sql, version)
        if found.new.identity != found.old.identity:
            versions = self._plans.for_all(found.old, found.new)
            if found.match.recompute:
                self._plans.prepare(name, *versions)
            else:
                self._plans.switch(name, versions)

    def planned(self, name: QueryId, sql: str, version: QueryId | None = None) -> Replacement:
        """What goes on and what begins again. SqlError, ConfigError or DeploymentError: it cannot be, and why."""
        old = self._fleet.execution(self._fleet.known(name))
        self._plans.check(name, old, text=True)
        if old.target is not None:
            why = f"its results are rows of stream '{old.target}', which others may read"
            msg = f"'{name}' cannot be replaced: {why}. Withdraw it, and submit the new text: the stream goes on"
            raise DeploymentError(msg)
        new = compile_query(sql, self._fleet.deployment.streams, version or old.id, (), self._fleet.functions.names)
        found = replacement(old, new, self._fleet.deployment.streams)
        self._check_columns(name, old, found)
        written = replace(found.new, id=version or QueryId(f"{name}~new"), inherits=old.id, until=0)
        written = scattered(written) if old.scattered else written
        self._plans.check_place(name, self._plans.for_all(old, written))
        return replace(found, new=written)

    def _check_columns(self, name: QueryId, old: Query, found: Replacement) -> None:
        """Results of both texts are read under one name, and followed by the same sinks."""
        was, now = self._fleet.analyst.output(old), self._fleet.analyst.output(found.new)
        types = {c.name: c.type for c in was}
        other = next((c for c in now if found.same_columns and types[c.name] != c.type), None)
        if other is not None:
            why = f"its column {other.name} is {types[other.name]} and would be {other.type}"
            msg = f"'{name}' cannot be replaced: {why}. Cast it, or give the new column another name"
            raise DeploymentError(msg)
        sinks = sorted(sink for query, sink in self._fleet.dispatcher.deliveries if query == name)
        if sinks and not found.same_columns:
            why = f"{', '.join(sinks)} follows its results, with other columns"
            remedy = f"Select {', '.join(old.output)}, or submit it under a name of its own"
            msg = f"'{name}' cannot be replaced: {why}. {remedy}"
            raise DeploymentError(msg)
