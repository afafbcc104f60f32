"""`Fleet.connect(url)`: the methods of a fleet, over a server's REST API.

What an embedded fleet returns as a Spark DataFrame is a list of dicts here, with times as ISO 8601 text. With
`wait=False`, whatever changes the fleet returns a `RemoteCommand` at once, to be followed by its number.
"""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from godwit.client.http import Http
from godwit.client.live import subscribed
from godwit.client.pages import newest, pages
from godwit.delivery.json_rows import html_table
from godwit.errors import DeploymentError

ARROW = "application/vnd.apache.arrow.stream"


class RemoteCommand:
    """A command that was sent, and is carried out in its turn."""

    def __init__(self, http: Http, number: int) -> None:
        self._http, self.number = http, number

    def state(self) -> dict[str, Any]:
        """{"state": "waiting"}, "done" with its epoch, or "refused" with the message."""
        found: dict[str, Any] = self._http.ask("GET", f"/v1/commands/{self.number}")
        return found

    def __repr__(self) -> str:
        return f"RemoteCommand({self.number})"


class RemoteQuery:
    """A query of a fleet behind a server."""

    def __init__(self, http: Http, name: str) -> None:
        self._http, self.id = http, name
        self._path = f"/v1/queries/{quote(name, safe='')}"

    def results(self) -> list[dict[str, Any]]:
        """Every result so far; of results that replace each other the newest per key."""
        key = self._http.ask("GET", self._path).get("key")
        return newest(self.changes(), key)

    def changes(self) -> list[dict[str, Any]]:
        """The results as they were committed."""
        return [row for rows, _ in pages(self._http, self._path) for row in rows]

    def subscribe(self, *, from_now: bool = True) -> Iterator[dict[str, Any]]:
        """Results as they are committed, without gaps or repeats, also over a connection that drops."""
        return subscribed(self._http, self._path, from_now)

    def explain(self) -> str:
        return str(self._http.ask("GET", f"{self._path}/explain")["plan"])

    def stop(self) -> None:
        self._http.ask("DELETE", self._path)

    def __repr__(self) -> str:
        return f"RemoteQuery({self.id!r})"

    def _repr_html_(self) -> str:
        """For notebooks: the plan, and some results."""
        rows = self._http.ask("GET", f"{self._path}/results", params={"limit": 20})["rows"]
        return f"<b>{escape(self.id)}</b><pre>{escape(self.explain())}</pre>{html_table(rows)}"


class RemoteDevice:
    """A device that sends its rows to a server."""

    def __init__(self, fleet: RemoteFleet, name: str, streams: Sequence[str]) -> None:
        self._fleet, self.id, self._streams = fleet, name, tuple(streams)

    def push(self, rows: Any, stream: str | None = None, sequence: int | None = None) -> bool:
        target = stream or (self._streams[0] if len(self._streams) == 1 else None)
        if target is None:
            msg = f"device '{self.id}' feeds {list(self._streams) or 'no stream'}; name one of them"
            raise DeploymentError(msg)
        return self._fleet.push(target, rows, device=self.id, sequence=sequence)

    def attach(self, site: str) -> None:
        self._fleet.device(self.id, site=site)

    def detach(self) -> None:
        self._fleet.change([f"device {self.id} left"])


class RemoteFleet:
    """The fleet of a server."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self._http = Http(url, token)
        self._http.ask("GET", "/v1/health")

    # --- streams and devices

    def stream(self, name: str, schema: str, **options: Any) -> dict[str, Any]:
        """Declare a stream; options as in `Fleet.stream`."""
        told = {"name": name, "columns": schema, **options}
        found: dict[str, Any] = self._http.ask("POST", "/v1/streams", json=told)
        return found

    def device(self, name: str, *, site: str | None = None, streams: Sequence[str] = ()) -> RemoteDevice:
        body = {"site": site, "streams": list(streams)}
        self._http.ask("PUT", f"/v1/devices/{quote(name, safe='')}", json=body)
        return RemoteDevice(self, name, streams)

    def push(self, stream: str, rows: Any, *, device: str | None = None, sequence: int | None = None) -> bool:
        """Send rows (dicts, an Arrow table, a pandas frame). When this returns, they are durable."""
        params = {"device": device, "sequence": sequence}
        given = {name: value for name, value in params.items() if value is not None}
        path = f"/v1/streams/{quote(stream, safe='')}/rows"
        body = (
            {"content": _arrow(rows), "headers": {"content-type": ARROW}} if _is_table(rows) else {"json": _plain(rows)}
        )
        return bool(self._http.ask("POST", path, params=given, **body)["taken"])

    # --- queries

    @property
    def queries(self) -> list[str]:
        return [query["name"] for query in self._http.ask("GET", "/v1/queries")]

    def query(self, name: str) -> RemoteQuery:
        self._http.ask("GET", f"/v1/queries/{quote(name, safe='')}")
        return RemoteQuery(self._http, name)

    def submit(self, sql: Any, name: str, *, sink: str | None = None, wait: bool = True) -> RemoteQuery | RemoteCommand:
        body = {"name": name, "sql": sql if isinstance(sql, str) else sql.sql(), "sink": sink}
        return self._sent("POST", "/v1/queries", body, wait) or RemoteQuery(self._http, name)

    def alter(self, query: str, sql: Any, *, wait: bool = True) -> RemoteQuery | RemoteCommand:
        body = {"sql": sql if isinstance(sql, str) else sql.sql()}
        path = f"/v1/queries/{quote(query, safe='')}"
        return self._sent("PATCH", path, body, wait) or RemoteQuery(self._http, query)

    def replace(self, query: str, sql: Any, *, dry_run: bool = False) -> str:
        """As `Fleet.replace`."""
        body = {"sql": sql if isinstance(sql, str) else sql.sql()}
        path = f"/v1/queries/{quote(query, safe='')}/replace"
        return str(self._http.ask("POST", path, json=body, params={"dry_run": dry_run})["explanation"])

    def replan(
        self,
        query: str,
        *,
        order: str = "",
        partial: bool | None = None,
        filters_up: Sequence[str] = (),
        filters_down: Sequence[str] = (),
        strategy: str = "auto",
        dry_run: bool = False,
    ) -> str:
        """As `Fleet.replan`."""
        streams = {"filters_up": list(filters_up), "filters_down": list(filters_down)}
        body = {"order": order, "partial": partial, "strategy": strategy, **streams}
        path = f"/v1/queries/{quote(query, safe='')}/replan"
        return str(self._http.ask("POST", path, json=body, params={"dry_run": dry_run})["explanation"])

    def withdraw(self, query: str, *, wait: bool = True) -> RemoteCommand | None:
        return self._sent("DELETE", f"/v1/queries/{quote(query, safe='')}", None, wait)

    def results(self, query: str) -> list[dict[str, Any]]:
        return RemoteQuery(self._http, query).results()

    def subscribe(self, query: str) -> Iterator[dict[str, Any]]:
        return RemoteQuery(self._http, query).subscribe()

    # --- the ground moves

    def change(self, changes: Sequence[str], *, wait: bool = True) -> RemoteCommand | None:
        """Changes as people write them: "device t1 -> east", "site west-3 failed"."""
        return self._sent("POST", "/v1/changes", {"changes": list(changes)}, wait)

    def move(
        self, placement: Mapping[str, str], cause: str = "moved by hand", *, wait: bool = True
    ) -> RemoteCommand | None:
        return self._sent("POST", "/v1/placement", {"placement": dict(placement), "cause": cause}, wait)

    def migrate(
        self,
        query: str,
        *,
        keys: str | Sequence[Any],
        to: str,
        strategy: str = "auto",
        operator: int | None = None,
        dry_run: bool = False,
        wait: bool = True,
    ) -> str | RemoteCommand:
        """As `Fleet.migrate`."""
        listed = [keys] if isinstance(keys, str) else [_key(key) for key in keys]
        body = {"keys": listed, "to": to, "strategy": strategy, "operator": operator}
        path = f"/v1/queries/{quote(query, safe='')}/migrate"
        if dry_run:
            return str(self._http.ask("POST", path, json=body, params={"dry_run": True})["explanation"])
        return self._sent("POST", path, body, wait) or f"keys {', '.join(map(str, listed))} of '{query}' go to {to}"

    # --- look

    def explain(self, sql: str) -> str:
        """What a query would become; nothing happens."""
        return str(self._http.ask("POST", "/v1/explain", json={"sql": sql})["plan"])

    def explain_change(self, changes: Sequence[str]) -> str:
        return str(self._http.ask("POST", "/v1/explain", json={"changes": list(changes)})["change"])

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self._http.ask("GET", "/v1/status")
        return found

    def history(self, after: int = 0) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._http.ask("GET", "/v1/history", params={"after": after, "limit": 10_000})
        return found

    def topology(self) -> dict[str, Any]:
        found: dict[str, Any] = self._http.ask("GET", "/v1/topology")
        return found

    def load_topology(self, yaml: str) -> dict[str, Any]:
        """Add everything of a topology file's text that is not there yet."""
        found: dict[str, Any] = self._http.ask("POST", "/v1/topology", json={"yaml": yaml})
        return found

    def stop(self) -> None:
        """Let go of the connections; the fleet goes on."""
        self._http.client.close()

    def __enter__(self) -> RemoteFleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _sent(self, method: str, path: str, body: dict[str, Any] | None, wait: bool) -> RemoteCommand | None:
        more: dict[str, Any] = {} if body is None else {"json": body}
        told = self._http.ask(method, path, params={"wait": wait}, **more)
        return None if wait else RemoteCommand(self._http, told["command"])


def _is_table(rows: Any) -> bool:
    return isinstance(rows, pa.Table | pa.RecordBatch) or hasattr(rows, "__arrow_c_stream__") or _is_frame(rows)


def _is_frame(rows: Any) -> bool:
    return type(rows).__module__.startswith("pandas") and hasattr(rows, "columns")


def _arrow(rows: Any) -> bytes:
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    table = (
        rows
        if isinstance(rows, pa.Table)
        else pa.Table.from_pandas(rows, preserve_index=False)
        if _is_frame(rows)
        else pa.table(rows)
    )
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    made: bytes = out.getvalue().to_pybytes()
    return made


def _plain(value: Any) -> Any:
    """For JSON: times as text; a naive one is UTC, as everywhere."""
    match value:
        case dt.datetime():
            return (value if value.tzinfo else value.replace(tzinfo=dt.UTC)).isoformat()
        case Mapping():
            return {str(key): _plain(one) for key, one in value.items()}
        case bytes():
            return base64.b64encode(value).decode()
        case None | bool() | int() | float() | str():
            return value
        case _ if hasattr(value, "__iter__"):
            return [_plain(one) for one in value]
    return str(value)


def _key(key: Any) -> Any:
    return list(key) if isinstance(key, tuple) else key
