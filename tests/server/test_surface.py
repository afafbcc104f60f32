"""`Fleet.connect(url)` has the methods of the embedded fleet: what differs is named here, with the reason."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from godwit.api.fleet import Fleet
from godwit.api.handles import DeviceHandle, QueryHandle
from godwit.api.tables import TableHandle
from godwit.api.topology_store import TopologyStore
from godwit.client.handles import RemoteDevice, RemoteQuery, RemoteTable
from godwit.client.remote import RemoteFleet
from godwit.client.topology import RemoteTopology

INSIDE = "works on the fleet from inside: threads, logs and plans of this process"
SPARK = "takes or returns objects of the Spark session, which is the server's"
#: methods of an embedded fleet that a remote one has not, and why
EMBEDDED_ONLY = {
    "embedded": "opens a fleet here",
    "connect": "makes the remote one",
    "export": "a savepoint is written where the fleet is, while it does not run",
    "restore": "opens a fleet here",
    "start": "whoever serves the fleet starts it",
    "function": "Python code runs where the fleet is: declare functions there",
    "replay": "reads files where the fleet is; post the rows instead",
    "ingest": SPARK,
    "follow": "broker sources run where the fleet is: `godwit serve --config`",
    "spark": SPARK,
    "results_of": SPARK,
    "schema": SPARK,
    "deployment": "frozen values of the control plane; `fleet.status()`, `fleet.state()` and /v1 say what they say",
    "plane": INSIDE,
    "parked": "`fleet.status()` has it: queries, parked",
    "before": INSIDE,
    "carry_out": INSIDE,
    "root": "a folder of another machine",
    "departed": INSIDE,
    "execution": INSIDE,
    "forget_devices": INSIDE,
    "keep_copies": INSIDE,
    "lineage": INSIDE,
    "path": "`fleet.topology.path`",
    "rows_of": INSIDE,
    "runners_of": INSIDE,
    "stream_of": INSIDE,
    "undeploy": INSIDE,
    "unread": "the server refuses rows with 429 instead",
    "hint": INSIDE,
}
#: the other way round
REMOTE_ONLY = {
    "state": "desired and current state apart: embedded calls return when they agree",
    "subscribe": "embedded: query.write_to(CallbackSink(...))",
    "known_table": "embedded: fleet.table again, with the same columns",
}
HANDLES: list[tuple[type, type, dict[str, str], dict[str, str]]] = [
    (
        QueryHandle,
        RemoteQuery,
        {"write_to": "sinks run where the fleet is: `godwit serve --config`"},
        {"subscribe": "embedded: write_to", "explained": "embedded: explain and fleet.status()"},
    ),
    (DeviceHandle, RemoteDevice, {}, {"report_position": "a server attaches by position; embedded: attach"}),
    (
        TableHandle,
        RemoteTable,
        {"follow_file": "follows where the fleet is", "follow_postgres": "follows where the fleet is"},
        {},
    ),
    (TopologyStore, RemoteTopology, {}, {}),
]
#: parameters that only one of the two has
PARAMETERS = {"wait": "remote: return the command's number at once", "options": "remote: as in Fleet.stream"}


def public(kind: type) -> dict[str, Any]:
    return {name: inspect.getattr_static(kind, name) for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("here", "there", "here_only", "there_only"), [(Fleet, RemoteFleet, EMBEDDED_ONLY, REMOTE_ONLY), *HANDLES]
)
def test_both_have_the_same_methods(
    here: type, there: type, here_only: dict[str, str], there_only: dict[str, str]
) -> None:
    mine, theirs = public(here), public(there)
    assert sorted(set(mine) - set(theirs)) == sorted(here_only), "a method that a remote fleet lacks"
    assert sorted(set(theirs) - set(mine)) == sorted(there_only), "a method that an embedded fleet lacks"
    for name in set(mine) & set(theirs):
        if not callable(mine[name]):
            continue
        one, other = (set(inspect.signature(found).parameters) for found in (mine[name], theirs[name]))
        odd = {parameter for parameter in (one ^ other) if parameter not in PARAMETERS}
        if "options" in other:  # (keywords that go to the server as they are, where they are checked)
            odd -= one
        assert odd - {"timeout"} == set(), f"{here.__name__}.{name} and {there.__name__}.{name}"


def test_what_a_fleet_is_made_with_is_there_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attributes that are set, not defined."""
    monkeypatch.setattr("godwit.client.http.Http.ask", lambda *_, **__: {})
    remote = RemoteFleet("http://127.0.0.1:1")
    assert isinstance(remote.topology, RemoteTopology)
    assert callable(remote.history.read)
    assert RemoteDevice(remote._http, "t1").id == "t1"
