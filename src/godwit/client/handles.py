"""What `RemoteFleet` hands out: queries, devices and tables behind a server, with the methods of those of a fleet."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any
from urllib.parse import quote

from godwit.client.bodies import body_of, key_json
from godwit.client.http import Http, taken
from godwit.client.live import subscribed
from godwit.client.pages import newest, pages
from godwit.delivery.json_rows import html_table
from godwit.errors import DeploymentError, NotAttachedError

#: a job is asked for so long at a time (seconds)
ASK = 30.0


def named(kind: str, name: str) -> str:
    """The path of something by its name."""
    return f"/v1/{kind}/{quote(name, safe='')}"


class RemoteCommand:
    """A command that was sent, and is carried out in its turn."""

    def __init__(self, http: Http, number: int) -> None:
        self._http, self.number = http, number

    def state(self, seconds: float = 0.0) -> dict[str, Any]:
        """{"state": "waiting"}, "done" with its epoch, or "refused" with the message; waits up to that many seconds."""
        found: dict[str, Any] = self._http.ask("GET", f"/v1/commands/{self.number}", params={"seconds": seconds})
        return found

    def __repr__(self) -> str:
        return f"RemoteCommand({self.number})"


@dataclass(frozen=True)
class RemoteVerdict:
    """What the oracle has found, as `Verdict` says it."""

    query: str
    expected: int
    got: int
    equal: bool
    missing: tuple[str, ...] = ()
    surplus: tuple[str, ...] = ()


def finished(http: Http, answer: dict[str, Any]) -> Any:
    """Wait for a job; its result."""
    while (state := http.ask("GET", f"/v1/jobs/{answer['job']}", params={"seconds": ASK}))["state"] == "running":
        pass
    if state["state"] == "failed":
        raise DeploymentError(str(state["message"]))
    return state["result"]


class RemoteQuery:
    """A query of a fleet behind a server."""

    def __init__(self, http: Http, name: str) -> None:
        self._http, self.id = http, name
        self._path = named("queries", name)

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
        return str(self.explained()["plan"])

    def explained(self) -> dict[str, Any]:
        """Its plan, its operators, where each instance is, and what its rows wait for."""
        found: dict[str, Any] = self._http.ask("GET", f"{self._path}/explain")
        return found

    def late(self) -> list[dict[str, Any]]:
        """Rows that came too late to be in a result."""
        rows: list[dict[str, Any]] = self._http.ask("GET", f"{self._path}/late", params={"limit": 10_000})["rows"]
        return rows

    def verdict(self) -> RemoteVerdict:
        """Compare the results so far with the same SQL as a batch over everything that was sent; the server does it."""
        answer = finished(self._http, self._http.ask("POST", f"{self._path}/verdict"))
        return RemoteVerdict(**{**answer, "missing": tuple(answer["missing"]), "surplus": tuple(answer["surplus"])})

    def stop(self) -> None:
        self._http.ask("DELETE", self._path)

    def __repr__(self) -> str:
        return f"RemoteQuery({self.id!r})"

    def _repr_html_(self) -> str:
        """For notebooks: the plan, and some results."""
        rows = self._http.ask("GET", f"{self._path}/results", params={"limit": 20})["rows"]
        return f"<b>{escape(self.id)}</b><pre>{escape(self.explain())}</pre>{html_table(rows)}"


class RemoteDevice:
    """A device that sends its rows to a server; while it is attached to no site, it buffers."""

    def __init__(self, http: Http, name: str) -> None:
        self._http, self.id = http, name
        self._path = named("devices", name)
        self._buffer: list[tuple[str, Any, int | None]] = []

    @property
    def attached(self) -> bool:
        return self._http.ask("GET", self._path)["site"] is not None

    @property
    def buffered(self) -> int:
        """Batches that wait for the device to be attached again."""
        return len(self._buffer)

    def push(self, rows: Any, stream: str | None = None, sequence: int | None = None) -> bool:
        """Send rows; False if they were buffered, or if this sequence number came through before."""
        target = self._target(stream)
        try:
            return self._send(target, rows, sequence)
        except NotAttachedError:
            self._buffer.append((target, rows, sequence))
            return False

    def attach(self, site: str) -> None:
        """At a (new) site: whatever was buffered goes out first."""
        self._http.ask("PUT", self._path, json={"site": site})
        waiting, self._buffer = self._buffer, []
        for stream, rows, sequence in waiting:
            self._send(stream, rows, sequence)

    def detach(self) -> None:
        self._http.ask("POST", f"{self._path}/detach")

    def report_position(self, lat: float, lon: float, hysteresis_m: float | None = None) -> str | None:
        """Where it is, in degrees: it is attached to the nearest site. Returns that."""
        position = {"lat": lat, "lon": lon, "hysteresis_m": hysteresis_m}
        found: str | None = self._http.ask("POST", f"{self._path}/position", json=position)["site"]
        return found

    def reset_clock(self) -> None:
        self._http.ask("POST", f"{self._path}/reset-clock")

    def close(self) -> None:
        self._http.ask("POST", f"{self._path}/close")

    def _send(self, stream: str, rows: Any, sequence: int | None) -> bool:
        given = {"device": self.id} if sequence is None else {"device": self.id, "sequence": sequence}
        path = f"{named('streams', stream)}/rows"
        return taken(self._http.ask("POST", path, params=given, **body_of(rows)))

    def _target(self, stream: str | None) -> str:
        if stream is not None:
            return stream
        fed = self._http.ask("GET", self._path)["streams"]
        if len(fed) != 1:
            msg = f"device '{self.id}' feeds {fed or 'no stream'}; name one of them"
            raise DeploymentError(msg)
        return str(fed[0])


class RemoteTable:
    """A reference table behind a server."""

    def __init__(self, http: Http, name: str) -> None:
        self._http, self.name = http, name
        self._path = named("tables", name)

    def upsert(self, rows: Any, since: dt.datetime | None = None) -> int:
        return self._changed("POST", "rows", body_of(rows), since)

    def delete(self, keys: Sequence[Any], since: dt.datetime | None = None) -> int:
        return self._changed("POST", "delete", {"json": {"keys": [key_json(key) for key in keys]}}, since)

    def replace(self, rows: Any, since: dt.datetime | None = None) -> int:
        return self._changed("PUT", "rows", body_of(rows), since)

    def rows(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while True:
            answer = self._http.ask("GET", f"{self._path}/rows", params={"offset": len(found), "limit": 100_000})
            found += answer["rows"]
            if not answer["more"]:
                return found

    @property
    def columns(self) -> list[dict[str, str]]:
        found: list[dict[str, str]] = self._http.ask("GET", self._path)["columns"]
        return found

    def _changed(self, method: str, path: str, body: dict[str, Any], since: dt.datetime | None) -> int:
        params = {} if since is None else {"since": since.isoformat()}
        return int(self._http.ask(method, f"{self._path}/{path}", params=params, **body)["changed"])
