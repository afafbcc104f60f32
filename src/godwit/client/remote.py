"""`Fleet.connect(url)`: the methods of a fleet, over a server's REST API.

What an embedded fleet returns as a Spark DataFrame is a list of dicts here, with times as ISO 8601 text. With
`wait=False`, whatever changes the fleet returns a `RemoteCommand` at once, to be followed by its number.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from godwit.client.bodies import body_of, keys_json
from godwit.client.handles import RemoteCommand, RemoteDevice, RemoteQuery, RemoteTable, finished, named
from godwit.client.http import Http, taken
from godwit.client.topology import RemoteHistory, RemoteTopology
from godwit.errors import DeploymentError
from godwit.migration.phases import REPLICA
from godwit.model.change_text import as_changes, change_text, move_text
from godwit.model.changes import Change

if TYPE_CHECKING:
    from godwit.ingest.pipeline import Pipeline

log = logging.getLogger("godwit.client")

Emit = Literal["final", "changes"]
Joins = Literal["materialised", "stateless"]
Order = Literal["device", "none"]


class RemoteFleet:
    """The fleet of a server."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self._http = Http(url, token)
        self._http.ask("GET", "/v1/health")
        self.url = self._http.url
        self.topology, self.history = RemoteTopology(self._http), RemoteHistory(self._http)

    def __repr__(self) -> str:
        return f"RemoteFleet({self.url!r})"

    # --- streams, tables and devices

    def stream(self, name: str, schema: str, **options: Any) -> dict[str, Any]:
        """Declare a stream; options as in `Fleet.stream`."""
        return self._told("POST", "/v1/streams", json={"name": name, "columns": schema, **options})

    def alter_stream(self, name: str, *, add: str) -> dict[str, Any]:
        """Give a stream columns more (`"color string, weight double"`) while everything runs."""
        self._http.ask("PATCH", named("streams", name), json={"add": add})
        return self._told("GET", named("streams", name))

    def table(
        self,
        name: str,
        schema: str,
        *,
        key: str | Sequence[str],
        disorder: str | None = None,
        site: str | None = None,
    ) -> RemoteTable:
        """Declare a reference table, which queries join by its key."""
        keys = [key] if isinstance(key, str) else list(key)
        body = {"name": name, "columns": schema, "key": keys, "disorder": disorder, "site": site}
        self._http.ask("POST", "/v1/tables", json=body)
        return RemoteTable(self._http, name)

    def known_table(self, name: str) -> RemoteTable:
        """A reference table that is declared."""
        self._http.ask("GET", named("tables", name))
        return RemoteTable(self._http, name)

    def device(self, name: str, *, site: str | None = None, streams: Sequence[str] = ()) -> RemoteDevice:
        self._http.ask("PUT", named("devices", name), json={"site": site, "streams": list(streams)})
        return RemoteDevice(self._http, name)

    def push(
        self,
        stream: str,
        rows: Any,
        *,
        device: str | None = None,
        sequence: int | None = None,
        dead: list[dict[str, Any]] | None = None,
    ) -> bool:
        """Send rows (dicts, an Arrow table, a pandas frame). When this returns, they are durable. `dead` is filled with
        those that did not fit, each with the reason (20 a push at most; `dead_letters` has all)."""
        given = {k: v for k, v in {"device": device, "sequence": sequence}.items() if v is not None}
        path = f"{named('streams', stream)}/rows"
        answer = self._http.ask("POST", path, params=given, **body_of(rows))
        if dead is not None:
            dead += answer.get("dead_letters", [])
        return taken(answer)

    def push_many(
        self,
        stream: str,
        batches: Sequence[tuple[int, Any]],
        device: str,
        dead: list[dict[str, Any]] | None = None,
    ) -> int:
        """Numbered batches of a device, in order, a request each; how many were new. `dead`: see `push`."""
        return sum(self.push(stream, rows, device=device, sequence=number, dead=dead) for number, rows in batches)

    def pipeline(self, window: int | None = None) -> Pipeline:
        """Pushes that need not wait for each other: at most `window` of a device's are on their way."""
        from godwit.ingest.pipeline import WINDOW, Pipeline  # (pyarrow, which no other call needs)

        return Pipeline(self.push_many, WINDOW if window is None else window)

    def tell_time(self, stream: str, clocks: Mapping[str, int]) -> None:
        """Attached devices without rows say how far they have come (microseconds), so that windows can close."""
        self._http.ask("POST", f"{named('streams', stream)}/clocks", json={"clocks": dict(clocks)})

    def close_sources(self) -> None:
        """No device sends more: every window closes. A device that sends later begins again."""
        self._http.ask("POST", "/v1/sources/close")

    def close_device(self, device: str) -> None:
        RemoteDevice(self._http, device).close()

    def reset_clock(self, device: str) -> None:
        RemoteDevice(self._http, device).reset_clock()

    def is_attached(self, device: str) -> bool:
        return RemoteDevice(self._http, device).attached

    def dead_letters(self) -> list[dict[str, Any]]:
        """Rows that did not fit their stream, each with the reason."""
        found: list[dict[str, Any]] = self._http.ask("GET", "/v1/dead-letters", params={"limit": 10_000})
        return found

    # --- queries

    @property
    def queries(self) -> list[str]:
        return [query["name"] for query in self._http.ask("GET", "/v1/queries")]

    def known(self, query: str) -> str:
        """The name of a running query; DeploymentError lists those that run."""
        return self.query(query).id

    def query(self, name: str) -> RemoteQuery:
        self._http.ask("GET", named("queries", name))
        return RemoteQuery(self._http, name)

    def submit(
        self,
        sql: Any,
        name: str,
        *,
        sink: str | None = None,
        emit: Emit = "final",
        joins: Joins = "materialised",
        order: Order = "device",
        wait: bool = True,
    ) -> RemoteQuery | RemoteCommand:
        body = {"name": name, "sql": _text(sql), "sink": sink, "emit": emit, "joins": joins, "order": order}
        return self._sent("POST", "/v1/queries", body, wait) or RemoteQuery(self._http, name)

    def alter(self, query: str, sql: Any, *, wait: bool = True) -> RemoteQuery | RemoteCommand:
        return self._sent("PATCH", named("queries", query), {"sql": _text(sql)}, wait) or RemoteQuery(self._http, query)

    def replace(self, query: str, sql: Any, *, dry_run: bool = False, wait: bool = True) -> str | RemoteCommand:
        """As `Fleet.replace`."""
        body, path = {"sql": _text(sql)}, f"{named('queries', query)}/replace"
        explained = str(self._told("POST", path, json=body, params={"dry_run": True})["explanation"])
        return explained if dry_run else self._sent("POST", path, body, wait) or explained

    def withdraw(self, query: str, *, wait: bool = True) -> RemoteCommand | None:
        return self._sent("DELETE", named("queries", query), None, wait)

    def replan(
        self,
        query: str,
        *,
        order: str = "",
        partial: bool | None = None,
        filters_up: Sequence[str] = (),
        filters_down: Sequence[str] = (),
        strategy: str = "auto",
        run_out: bool = False,
        alone: bool = False,
        dry_run: bool = False,
        wait: bool = True,
    ) -> str | RemoteCommand:
        """As `Fleet.replan`."""
        streams = {"filters_up": list(filters_up), "filters_down": list(filters_down)}
        body = {"order": order, "partial": partial, **streams, "strategy": strategy, "run_out": run_out, "alone": alone}
        path = f"{named('queries', query)}/replan"
        if dry_run:
            return str(self._told("POST", path, json=body, params={"dry_run": True})["explanation"])
        return self._sent("POST", path, body, wait) or f"'{query}' has another plan"

    def results(self, query_id: str) -> list[dict[str, Any]]:
        return RemoteQuery(self._http, query_id).results()

    def changes(self, query_id: str) -> list[dict[str, Any]]:
        return RemoteQuery(self._http, query_id).changes()

    def subscribe(self, query: str) -> Iterator[dict[str, Any]]:
        return RemoteQuery(self._http, query).subscribe()

    # --- the ground moves

    def change(self, changes: Change | str | Iterable[Change | str], *, wait: bool = True) -> RemoteCommand | None:
        """Changes as values, or as people write them: "device t1 -> east", "site west-3 failed"."""
        return self._sent("POST", "/v1/changes", {"changes": _texts(changes)}, wait)

    def move_device(self, device: str, site: str | None) -> None:
        self.change([move_text(device, site)])

    def notify_handover(self, device: str, site: str) -> None:
        """The network says that a source is attached to another site: its keys follow it."""
        self._http.ask("POST", f"{named('devices', device)}/handover", json={"site": site})

    def move(
        self, placement: Mapping[str, str], cause: str = "moved by hand", *, wait: bool = True
    ) -> RemoteCommand | None:
        return self._sent("POST", "/v1/placement", {"placement": dict(placement), "cause": cause}, wait)

    def migrate(
        self,
        query: str,
        *,
        keys: Any,
        to: str,
        strategy: str = "auto",
        operator: int | None = None,
        dry_run: bool = False,
        wait: bool = True,
    ) -> str | RemoteCommand:
        """As `Fleet.migrate`."""
        listed = keys_json(keys)
        body = {"keys": listed, "to": to, "strategy": strategy, "operator": operator}
        path = f"{named('queries', query)}/migrate"
        if dry_run:
            return str(self._told("POST", path, json=body, params={"dry_run": True})["explanation"])
        return self._sent("POST", path, body, wait) or f"keys {', '.join(map(str, listed))} of '{query}' go to {to}"

    def replicate(self, query: str, *, keys: Any, to: str, operator: int | None = None) -> None:
        """Keep a replica of the state of these keys at a site, until they migrate there."""
        self.migrate(query, keys=keys, to=to, strategy=REPLICA, operator=operator)

    # --- look

    def explain(self, sql: Any) -> str:
        """What a query would become; nothing happens."""
        return str(self._told("POST", "/v1/explain", json={"sql": _text(sql)})["plan"])

    def explain_change(self, changes: Change | str | Iterable[Change | str]) -> str:
        return str(self._told("POST", "/v1/explain", json={"changes": _texts(changes)})["change"])

    def status(self) -> dict[str, Any]:
        return self._told("GET", "/v1/status")

    def state(self) -> dict[str, Any]:
        """How far the fleet is behind what was asked of it: `desired`, `current`, `settled`."""
        return self._told("GET", "/v1/state")

    def check(self) -> None:
        """Raise if something of the fleet has failed."""
        if not self._told("GET", "/v1/ready", any_status=True)["ready"]:
            failures = self.status()["failures"]
            msg = f"the fleet is not ready: {failures or 'it is not started, or a part of it does not answer'}"
            raise DeploymentError(msg)

    def process_available(self) -> None:
        """Wait until everything that was sent has been answered."""
        finished(self._http, self._http.ask("POST", "/v1/drain"))

    def stop(self) -> None:
        """Let go of the connections; the fleet goes on."""
        self._http.client.close()

    def __enter__(self) -> RemoteFleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _told(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        found: dict[str, Any] = self._http.ask(method, path, **more)
        return found

    def _sent(self, method: str, path: str, body: dict[str, Any] | None, wait: bool) -> RemoteCommand | None:
        more: dict[str, Any] = {} if body is None else {"json": body}
        answer = self._http.ask(method, path, params={"wait": wait}, **more)
        for query, why in answer.get("suspended", {}).items():
            log.warning("query '%s' is suspended: %s", query, why)
        return None if wait else RemoteCommand(self._http, answer["command"])


def _text(sql: Any) -> str:
    return sql if isinstance(sql, str) else str(sql.sql())


def _texts(changes: Change | str | Iterable[Change | str]) -> list[str]:
    return [change_text(change) for change in as_changes(changes)]
