"""What a region's process makes of epochs: it follows them before it takes rows, and again if the disk was full."""

from __future__ import annotations

import datetime as dt
import errno
from collections.abc import Callable
from typing import cast

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from godwit.api.fleet import Fleet
from godwit.ids import RegionId, SiteId
from godwit.model.deployment import Delta, Deployment
from godwit.process.fleet_document import FleetDocument, write_fleet_options
from godwit.process.members import Membership
from godwit.process.region_agent import RegionAgent, RegionOptions
from godwit.process.region_process import RegionService, as_body
from tests.region.world import three_regions


def test_rows_of_a_stream_that_is_new(open_fleet: Callable[..., Fleet], spark: SparkSession) -> None:
    """The command that declares it is answered when its epoch is published; a busy region looks for it later."""
    fleet = open_fleet()
    agent = agent_of(fleet, spark)
    fleet.stream("trains", "train string, n int, ts timestamp", device="train")
    fleet.device("t0", site="west", streams=["trains"])
    rows = pa.Table.from_pylist([{"train": "t0", "n": 1, "ts": dt.datetime(2026, 1, 1, tzinfo=dt.UTC)}])
    head = {"do": "push", "stream": "trains", "device": "t0", "sequence": 1}
    told = RegionService(agent).handle(head, as_body(rows))
    assert told is not None
    assert told[0] == {"taken": True, "dead": [], "unknown": {}}


def test_batches_that_are_sent_again_with_more_are_taken_once(
    open_fleet: Callable[..., Fleet], spark: SparkSession
) -> None:
    """A client that has lost the answer sends its batches again, and others with them: one entry of what is new."""
    fleet = open_fleet()
    agent = agent_of(fleet, spark)
    fleet.stream("trains", "train string, n int, ts timestamp", device="train")
    fleet.device("t0", site="west", streams=["trains"])
    service, at = RegionService(agent), dt.datetime(2026, 1, 1, tzinfo=dt.UTC)

    def push(numbers: range) -> object:
        rows = pa.Table.from_pylist([{"train": "t0", "n": n, "ts": at} for n in numbers])
        head = {"do": "push_many", "stream": "trains", "device": "t0", "batches": [[n, 1] for n in numbers]}
        told = service.handle(head, as_body(rows))
        return told and told[0]["taken"]

    assert (push(range(1, 4)), push(range(2, 7)), push(range(5, 7))) == (3, 3, 0)
    log = fleet.store.log("regions/edge-west/sources/trains")
    with_rows = [record for _, record in log.after(0) if record["rows"]]
    assert [record["rows"]["t0"] for record in with_rows] == [3, 3]
    assert [record["sequence"] for record in with_rows] == [{"t0": 3}, {"t0": 6}]
    unfit = pa.table({"train": ["t0"], "n": ["one"], "ts": [at]})
    told = service.handle({"do": "push_many", "stream": "trains", "device": "t0", "batches": [[7, 1]]}, as_body(unfit))
    assert told
    assert "one" in str(told[0]["dead"])


def test_an_epoch_whose_ends_could_not_be_written_is_followed_again(
    open_fleet: Callable[..., Fleet], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk while a device moves on."""
    fleet = open_fleet()
    agent = agent_of(fleet, spark)
    adopted: list[frozenset[SiteId]] = []
    adopt = agent.gateway.adopt

    def adopts(delta: Delta, before: Deployment, after: Deployment) -> None:
        adopted.append(frozenset(delta.sites))
        if len(adopted) == 1:
            raise OSError(errno.ENOSPC, "no space left")
        adopt(delta, before, after)

    monkeypatch.setattr(agent.gateway, "adopt", adopts)
    with pytest.raises(OSError, match="no space left"):
        agent.look()
    assert not agent.deployment.sites
    agent.look()
    assert agent.deployment == fleet.deployment
    assert adopted[:2] == [frozenset(fleet.deployment.sites)] * 2


def test_what_a_full_disk_has_ended_is_not_final(
    open_fleet: Callable[..., Fleet], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again, so that whoever waits for the fleet goes on waiting; the status says for what."""
    agent = agent_of(open_fleet(), spark)
    full, wrong = OSError(errno.EFBIG, "File too large"), ValueError("a bug")
    monkeypatch.setattr(agent.pool, "failures", lambda: {"q in edge-west": full})
    told = agent.status()
    assert (told["idle"], told["failures"]) == (False, {})
    assert "File too large" in told["tried_again"]["q in edge-west"]
    monkeypatch.setattr(agent.pool, "failures", lambda: {"q in edge-west": full, "r in edge-west": wrong})
    assert agent.status()["failures"] == {"r in edge-west": "ValueError: a bug"}


def agent_of(fleet: Fleet, spark: SparkSession) -> RegionAgent:
    """Of a region of the fleet. It joins when it is started; here nobody looks at its log but the test."""
    fleet.topology.add(three_regions())
    write_fleet_options(fleet.store, FleetDocument())
    return RegionAgent(fleet.store, RegionId("edge-west"), spark, "token", RegionOptions(), cast(Membership, None))
