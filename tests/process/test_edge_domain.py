"""A region with a NATS server of its own, a leaf node: the link to the hub is cut and slow, the server and the region
are killed. The edge goes on meanwhile, and everything ends as the oracle says."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from godwit.api.fleet import Fleet
from godwit.ids import QueryId, RegionId
from godwit.maintenance.housekeeping import Retention
from godwit.process.connect import ConnectedFleet
from godwit.process.fleet_file import FleetFile
from godwit.process.forget_region import forget_region
from godwit.process.launcher import Launcher
from godwit.process.proxy import Proxy
from godwit.storage import names
from godwit.storage.open_store import open_store
from tests.process.conftest import REGIONS, two_regions
from tests.process.feed import Feed
from tests.region.world import QUERIES, SCHEMA
from tests.servers import Nats, until

pytestmark = pytest.mark.lane("other")
#: (here: answered in the edge's own region)
SQL = {
    "tumbling": QUERIES["tumbling"],
    "join": QUERIES["join"],
    "here": "SELECT train, coach, load, ts FROM passengers WHERE load >= 0",
}


class Edge:
    """A fleet of two regions: `cloud`, at the hub, and `edge`, at a leaf node behind a link that can be cut."""

    def __init__(self, folder: Path, ending: ExitStack, queries: Sequence[str] = tuple(SQL)) -> None:
        self.hub, self.link = ending.enter_context(Nats(folder / "hub", "hub")), Proxy()
        self.link.target = self.hub.leaf_address
        ending.callback(self.link.close)
        self.leaf = ending.enter_context(Nats(folder / "leaf", "edge", self.link.address))
        self.url, own = f"{self.hub.address}/fleet", f"{self.leaf.address}/fleet"
        self.regions = (replace(REGIONS[0], store=f"{own}?domain=edge&hub=hub"), REGIONS[1])
        self.launcher = Launcher(FleetFile(self.url, self.regions, lease=5.0, run_folder=folder / "run"))
        ending.callback(self.launcher.down)
        self.launcher.up()
        self.fleet = ending.enter_context(ConnectedFleet(self.url, self.launcher.token()))
        #: as one at the edge sees it
        self.near = open_store(self.regions[0].store or "")
        ending.callback(self.near.close)
        self.fleet.add_topology(two_regions())
        self.fleet.stream("passengers", SCHEMA, device="train", disorder="3 seconds")
        for number in range(3):
            self.fleet.device(f"t{number}", site=("west", "east")[number % 2], streams=["passengers"])
        self._queries = queries
        for name in queries:
            self.fleet.submit(SQL[name], name, sink="west" if name == "here" else "cloud")
        self.feed = Feed(self.fleet)

    def answered_here(self) -> int:
        """How many results the edge has committed of the query whose sink is there; nothing of the hub is needed."""
        shape = self.fleet.deployment.queries[QueryId("here")].shape.key
        commits = (record for _, record in self.near.log(names.commit_log("edge", shape)).after(0))
        return sum(segment["rows"] for record in commits for segment in record["results"])

    def restart_region(self) -> None:
        self.launcher.signal("edge", signal.SIGKILL)
        self.launcher.gone("edge")
        self.launcher.start_region(self.regions[0])
        self.launcher.joined()

    def ends_as_the_oracle_says(self, spark: SparkSession) -> None:
        self.fleet.close_sources()
        self.fleet.process_available(180)
        answered = {name: self.fleet.results(name).num_rows for name in self._queries}
        self.launcher.down()
        opened = Fleet(self.url, spark, retention=Retention(keep=True))
        try:
            for name, rows in answered.items():
                verdict = opened.query(name).verdict()
                assert verdict.equal, str(verdict)
                assert verdict.got == rows
                assert rows > 5
            logs = (opened.store.log(f"regions/{region}/sources/passengers").after(0) for region in ("edge", "cloud"))
            assert sum(sum(record["rows"].values()) for log in logs for _, record in log) == self.feed.rows
        finally:
            opened.stop()


@pytest.fixture
def ending() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


@pytest.mark.timeout(600)
def test_an_edge_that_is_cut_off_goes_on(tmp_path: Path, ending: ExitStack, spark: SparkSession) -> None:
    edge = Edge(tmp_path, ending)
    edge.feed.send(3)
    edge.fleet.process_available()
    before = edge.answered_here()
    assert before > 0

    edge.link.cut(True)
    began = time.monotonic()
    edge.feed.send(3, only=["t0", "t2"])  # taken, and acknowledged, at the edge
    assert until(lambda: edge.answered_here() >= before + 20, 30), "it does not answer while it is cut off"
    edge.feed.send(2, only=["t1"])  # the cloud goes on as well
    assert time.monotonic() - began < 60
    time.sleep(max(7.0 - (time.monotonic() - began), 0.0))  # longer than the lease: it counts as lost
    edge.fleet.move_device("t2", "east")  # the edge does not know
    edge.feed.send(2, only=["t0"])
    edge.link.cut(False)

    edge.feed.send(3)
    edge.ends_as_the_oracle_says(spark)


@pytest.mark.full
@pytest.mark.timeout(900)
def test_over_a_slow_link_the_leaf_node_and_the_region_are_killed(
    tmp_path: Path, ending: ExitStack, spark: SparkSession
) -> None:
    edge = Edge(tmp_path, ending)
    edge.link.delay(0.04)
    edge.feed.send(3)
    edge.leaf.kill()  # -9; what it acknowledged is on its disk
    edge.feed.send(2, only=["t1"])
    edge.leaf.start()
    edge.feed.send(3)
    edge.restart_region()
    edge.fleet.move_device("t0", "east")
    edge.feed.send(3)
    edge.fleet.migrate("tumbling", keys=["t1"], to="west")
    edge.fleet.move_device("t0", "west")
    edge.feed.send(3)
    for _ in range(3):  # a link that comes and goes
        edge.link.cut(True)
        edge.feed.send(1, only=["t2"])
        edge.link.cut(False)
        edge.feed.send(1)
    edge.link.delay(0.0)
    edge.ends_as_the_oracle_says(spark)


@pytest.mark.full
@pytest.mark.timeout(900)
def test_the_hub_and_the_coordinator_are_killed_and_started_without_the_edge(
    tmp_path: Path, ending: ExitStack, spark: SparkSession
) -> None:
    edge = Edge(tmp_path, ending)
    edge.feed.send(3)
    edge.fleet.process_available()
    before = edge.answered_here()
    edge.hub.kill()
    edge.hub.start()
    edge.launcher.signal("coordinator", signal.SIGKILL)
    edge.launcher.gone("coordinator")
    edge.link.cut(True)
    edge.launcher.start_coordinator()  # (while the edge's reports cannot be read)
    edge.feed.send(2, only=["t0", "t2"])
    assert until(lambda: edge.answered_here() > before, 30)
    edge.link.cut(False)
    edge.feed.send(3)
    edge.ends_as_the_oracle_says(spark)


@pytest.mark.full
@pytest.mark.timeout(900)
def test_a_region_with_a_domain_is_forgotten_from_the_hub(
    tmp_path: Path, ending: ExitStack, spark: SparkSession
) -> None:
    edge = Edge(tmp_path, ending, ("tumbling", "join"))
    edge.feed.send(3)
    edge.launcher.signal("edge", signal.SIGKILL)
    edge.launcher.gone("edge")
    gone = forget_region(edge.fleet, "edge", devices_to="east")
    assert gone.region == RegionId("edge")
    assert RegionId("edge") not in edge.fleet.regions()
    edge.feed.send(3)
    edge.ends_as_the_oracle_says(spark)
