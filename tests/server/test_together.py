"""Posts that arrive together: each gets its own answer, and every row is there once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pyarrow as pa
import pytest

from godwit.api.fleet import Fleet
from godwit.errors import SourceError
from godwit.ids import DeviceId, StreamId
from godwit.ingest.together import Parcel, push_alone, push_together
from tests.server.conftest import TOPOLOGY, Running


def row(device: str | None, n: int) -> dict[str, Any]:
    import datetime as dt

    told = {"boarded": n, "ts": dt.datetime(2026, 1, 1, 0, 0, n % 60, tzinfo=dt.UTC)}
    return told if device is None else {"train": device, **told}


@pytest.fixture
def fleet(open_fleet: Callable[..., Fleet]) -> Fleet:
    made = open_fleet()
    made.topology.load(TOPOLOGY)
    made.stream("passengers", "train string, boarded int, ts timestamp", device="train")
    for name, site in (("t1", "west"), ("t2", "west"), ("t3", "east")):
        made.device(name, site=site, streams=["passengers"])
    return made


def parcel(device: str | None, *numbers: int, sequence: int | None = None, signed: bool = True) -> Parcel:
    rows = [row(device if signed else None, n) for n in numbers]
    return Parcel(StreamId("passengers"), rows, DeviceId(device) if device else None, sequence)


def entries(fleet: Fleet) -> int:
    regions = set(fleet.deployment.sites.values())
    return sum(fleet.gateway.log(region, StreamId("passengers")).log.last for region in regions)


def stored(fleet: Fleet) -> list[tuple[str, int]]:
    found = []
    for region in set(fleet.deployment.sites.values()):
        log = fleet.gateway.log(region, StreamId("passengers")).log
        for _, record in log.after(0):
            from godwit.storage.log import Segment

            if record["segment"] is not None:
                segment = Segment.from_json(record["segment"], fleet.store)
                found += [(r["train"], r["boarded"]) for t in segment.tables() for r in t.to_pylist()]
    return sorted(found)


def test_one_entry_per_region_holds_them_all(fleet: Fleet) -> None:
    before = entries(fleet)
    given = [parcel("t1", 1, sequence=1), parcel("t2", 2, 3, sequence=7), parcel("t3", 4, signed=False), parcel(None)]
    assert push_together(fleet, given) == [True] * 4
    assert entries(fleet) == before + 2
    assert stored(fleet) == [("t1", 1), ("t2", 2), ("t2", 3), ("t3", 4)]
    assert fleet.gateway.sequence(StreamId("passengers"), "t2") == 7


def test_what_cannot_go_with_the_others_is_given_back(fleet: Fleet) -> None:
    given = [parcel("t1", 1, sequence=1), parcel("nobody", 2)]
    assert push_together(fleet, given) == [None, None]
    assert push_alone(fleet, given[0])
    assert not push_alone(fleet, given[0])
    # A repeat in a group, and one of what came before.
    again = [parcel("t2", 5, sequence=1), parcel("t2", 5, sequence=1)]
    assert push_together(fleet, again) == [True, None]
    assert push_together(fleet, [parcel("t1", 1, sequence=1), parcel("t2", 6, sequence=2)]) == [None, None]
    assert stored(fleet) == [("t1", 1), ("t2", 5)]


def test_tables_go_together_and_nobody_sends_for_another(fleet: Fleet) -> None:
    def table(sender: str, *named: str) -> Parcel:
        rows = pa.Table.from_pylist([row(name, n) for n, name in enumerate(named)])
        return Parcel(StreamId("passengers"), rows, DeviceId(sender))

    before = entries(fleet)
    assert push_together(fleet, [table("t1", "t1", "t1"), table("t2", "t2")]) == [True, True]
    assert entries(fleet) == before + 1
    assert stored(fleet) == [("t1", 0), ("t1", 1), ("t2", 0)]
    assert push_together(fleet, [table("t1", "t1"), table("t2", "t3")]) == [True, True]
    assert stored(fleet) == [("t1", 0), ("t1", 0), ("t1", 1), ("t2", 0)]
    assert "another device" in fleet.dead_letters()[0]["reason"]


def test_many_posts_at_once_each_get_their_answer(serve: Callable[..., Running]) -> None:
    server = serve()
    with server.client() as client:
        columns = "train string, boarded int, ts timestamp"
        client.post("/v1/streams", json={"name": "passengers", "columns": columns, "device": "train"})
        client.put("/v1/devices/t1", json={"site": "west", "streams": ["passengers"]})

    async def post() -> list[tuple[int, Any]]:
        limits = httpx.Limits(max_connections=50)
        headers = {"Authorization": "Bearer admin"}
        async with httpx.AsyncClient(base_url=server.url, limits=limits, headers=headers, timeout=60) as http:

            async def one(n: int) -> tuple[int, Any]:
                device = "t9" if n % 10 == 3 else "t1"
                told = {"train": device, "boarded": n, "ts": "2026-01-01T00:00:00Z"}
                bad = n % 10 == 7
                response = await http.post(
                    f"/v1/streams/passengers/rows?device={device}", **({"content": b"{"} if bad else {"json": told})
                )
                return n, response.status_code

            return await asyncio.gather(*(one(n) for n in range(200)))

    for n, status in asyncio.run(post()):
        assert status == {3: 409, 7: 422}.get(n % 10, 200)
    with server.client() as client:
        client.post("/v1/queries", json={"name": "all", "sql": "SELECT boarded, ts FROM passengers"})
        assert client.get("/v1/health").status_code == 200


def test_what_does_not_fit_is_told_to_whoever_sent_it(fleet: Fleet) -> None:
    bad = parcel("t2", 4)
    bad.rows.append({"train": "t2", "boarded": "many", "ts": row("t2", 5)["ts"]})
    given = [parcel("t1", 1), bad, parcel("t3", 3)]
    assert push_together(fleet, given) == [True] * 3
    assert [len(one.dead) for one in given] == [0, 1, 0]
    assert bad.dead[0]["reason"] == "boarded: 'many' is no int"
    assert stored(fleet) == [("t1", 1), ("t2", 4), ("t3", 3)]
    assert len(fleet.dead_letters()) == 1


def test_a_column_that_the_stream_has_not_is_told_to_whoever_sent_it(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    odd = Parcel(StreamId("passengers"), [{**row("t2", 2), "bordead": 9}], DeviceId("t2"))
    table = Parcel(StreamId("passengers"), pa.Table.from_pylist([{**row("t3", 3), "colour": "red"}]), DeviceId("t3"))
    given = [parcel("t1", 1), odd, table]
    assert push_together(fleet, given) == [True] * 3
    assert stored(fleet) == [("t1", 1), ("t2", 2), ("t3", 3)]
    assert [list(one.unknown) for one in given] == [[], ["bordead"], ["colour"]]
    assert "did you mean 'boarded'?" in odd.unknown["bordead"]
    assert "fleet.alter_stream('passengers', add='colour ..')" in table.unknown["colour"]
    fleet.push("passengers", [{**row("t1", 4), "bordead": 9}])
    said = [text for record in caplog.records if "bordead" in (text := record.getMessage())]
    assert said == [odd.unknown["bordead"]]
    assert fleet.status().unknown == {"passengers": {**odd.unknown, **table.unknown}}
    for n in range(50):  # names that somebody makes up fill nothing
        fleet.push("passengers", [{**row("t1", n), f"made_up_{n}": 1}])
    assert len(fleet.status().unknown["passengers"]) == 20


def test_a_table_has_only_its_columns_and_loses_only_what_is_there(fleet: Fleet) -> None:
    lines = fleet.table("lines", "id string, name string", key="id")
    assert lines.upsert([{"id": "a", "name": "A"}]) == 1
    with pytest.raises(SourceError, match="table 'lines' has no column 'nmae'; it has id, name"):
        lines.upsert([{"id": "b", "nmae": "B"}])
    assert lines.delete(["nobody"]) == 0
    assert lines.delete(["a", "a", "nobody"]) == 1
    assert lines.delete(["a"]) == 0
    with pytest.raises(SourceError, match="is no key; give id of each row"):
        lines.delete([("a", "b")])
