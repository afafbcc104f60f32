"""Read the published placement instances where they lie, and make larger ones of the same kind.

Files: workflows/riot-W_optimizer.json and riot-W-ifogsim.json (the DAGs), networks/tree_N.csv (binary trees),
operator-latency/W_N_avg.csv (operators x sites, ms), yahoo-fitiot/ (a real testbed, three platforms).
"""

from __future__ import annotations

import csv
import json
import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from godwit.errors import DataError
from godwit.placement.cost_models.cost import CostTables, Objective
from godwit.placement.problem.build import build_problem
from godwit.placement.problem.constraints import Constraints
from godwit.placement.problem.network import Floats, Network, NetworkLink, NetworkSite
from godwit.placement.problem.problem import PlanVector, Problem
from godwit.placement.problem.workflow import DataEdge, Workflow, WorkflowOperator
from godwit.placement.published.java_random import JavaRandom

#: tuples a second a source of the RIoT workflows sends in our four-dimensional instances
SOURCE_RATE = 1000.0


def data_folder() -> Path:
    """GODWIT_DATA, or ../shared/data beside the project."""
    default = Path(__file__).resolve().parents[5] / "shared" / "data"
    return Path(os.environ.get("GODWIT_DATA", default)) / "placement"


def _read(path: Path) -> str:
    if not path.is_file():
        msg = f"{path.name} is not in {path.parent}; set GODWIT_DATA to the folder that holds the placement data"
        raise DataError(msg)
    return path.read_text(encoding="utf-8")


def riot_workflow(name: str, folder: Path | None = None) -> Workflow:
    """TRAIN, PRED, STATS or ETL with the rates and sizes of its iFogSim description."""
    raw: dict[str, Any] = json.loads(_read((folder or data_folder()) / "workflows" / f"riot-{name}-ifogsim.json"))
    work: dict[str, float] = {}
    edges = []
    for c in raw["operatorConnections"]:
        work[c["toOperator"]] = max(work.get(c["toOperator"], 0.0), float(c["tupleCpuLength"]) / 1000)
        mbps = SOURCE_RATE * float(c["selectivity"]) * float(c["tupleNwLength"]) / 1e6
        edges.append(DataEdge(c["fromOperator"], c["toOperator"], mbps))
    operators = [WorkflowOperator(o["name"], work=work.get(o["name"], 1.0), cpu=1.0) for o in raw["operators"]]
    return Workflow(name, tuple(operators), tuple(edges))


def tree_network(size: int, folder: Path | None = None) -> Network:
    """A published tree; 127 and 1,023 are the upper levels of the published tree of 2,047."""
    folder = folder or data_folder()
    path = folder / "networks" / f"tree_{size}.csv"
    rows = list(csv.DictReader(_read(path if path.is_file() else folder / "networks" / "tree_2047.csv").splitlines()))
    levels = int(math.log2(size + 1))
    rows = [r for r in rows if int(r["level"]) < levels]
    if len(rows) != size:
        msg = f"there is no tree of {size} sites: the levels of tree_2047.csv give {len(rows)}; ask for 2^k - 1"
        raise DataError(msg)
    sites = [NetworkSite(r["site"], (r["platform"],), mips=float(r["mips"]), kind=r["kind"]) for r in rows]
    links = [
        NetworkLink(r["parent"], r["site"], float(r["link_latency_ms"]), float(r["up_bw"]) / 1e6)
        for r in rows
        if r["parent"]
    ]
    return Network(tuple(sites), tuple(links))


def one_platform(network: Network) -> Network:
    """The latency instances know sites only: one action a site."""
    return Network(tuple(replace(s, platforms=("any",)) for s in network.sites), network.links)


def read_latency(path: Path, workflow: Workflow, network: Network) -> Floats:
    """Operators x sites; a column `cloud-x` is the site `site-x`; an empty cell means 'cannot run'."""
    rows = list(csv.reader(_read(path).splitlines()))
    head = [h if h in network.index else h.replace("cloud-", "site-", 1) for h in rows[0][1:]]
    unknown = [h for h in head if h not in network.index]
    missing = set(network.index) - set(head)
    if unknown or missing:
        wrong = f"unknown sites {unknown[:3]}" if unknown else f"no column for {sorted(missing)[:3]}"
        msg = f"{path.name} does not fit the network: {wrong}"
        raise DataError(msg)
    table = np.full((len(workflow.operators), len(network.sites)), math.nan)
    for line in rows[1:]:
        if line and line[0] not in workflow.index:
            msg = f"{path.name} has a row for {line[0]!r}, which is no operator of workflow {workflow.name!r}"
            raise DataError(msg)
        if line:
            values = [float(x) if x.strip() else math.inf for x in line[1:]]
            table[workflow.index[line[0]], [network.index[h] for h in head]] = values
    return table


def published_root(operators: int, size: int, seed: int) -> PlanVector:
    """java.util.Random(seed).nextInt(N) + 1 an operator; ids 1..N are positions 0..N-1."""
    random = JavaRandom(seed)
    return tuple(random.next_int(size) for _ in range(operators))


def latency_tables(latency: Floats, workflow: Workflow) -> CostTables:
    """Latency mode: migration is the distance moved; the other dimensions are left out."""
    n = len(workflow.operators)
    return CostTables(latency, np.zeros_like(latency), np.zeros(len(workflow.edges)), np.zeros(n), np.ones(n))


def riot_latency_problem(name: str, size: int, folder: Path | None = None) -> Problem:
    """A published instance (7, 15, 31 sites), or one of its kind from `grown_latency` where no table is published."""
    folder = folder or data_folder()
    workflow, network = riot_workflow(name, folder), one_platform(tree_network(size, folder))
    path = folder / "operator-latency" / f"{name}_{size}_avg.csv"
    table = read_latency(path, workflow, network) if path.is_file() else grown_latency(workflow, network, folder)
    root = published_root(len(workflow.operators), size, 6 if (name, size) == ("train", 7) else 5)
    return build_problem(workflow, network, latency_tables(table, workflow), root)


def grown_latency(workflow: Workflow, network: Network, folder: Path | None = None, seed: int = 5) -> Floats:
    """For sizes that were not published: each cell is drawn from what the operator measured on that kind of device."""
    folder = folder or data_folder()
    seen: dict[tuple[int, str], list[float]] = {}
    for size in (7, 15, 31):
        small = one_platform(tree_network(size, folder))
        table = read_latency(folder / "operator-latency" / f"{workflow.name}_{size}_avg.csv", workflow, small)
        for o, s in np.ndindex(*table.shape):
            seen.setdefault((o, small.sites[s].kind), []).append(float(table[o, s]))
    random = np.random.default_rng(seed)
    cells = [[random.choice(seen[o, site.kind]) for site in network.sites] for o in range(len(workflow.operators))]
    return np.array(cells)


@dataclass(frozen=True)
class SpeedModel:
    """Estimates from machine speed alone: work / mips. Throughput is what a site's speed sustains."""

    restart_ms: float = 1.0
    #: the latency table to use instead of work / mips, where one was measured
    measured: Floats | None = None

    def tables(self, workflow: Workflow, network: Network) -> CostTables:
        """See `CostModel`."""
        mips = np.array([network.sites[s].mips for s, _ in network.actions])
        work = np.array([o.work for o in workflow.operators])
        latency = work[:, None] / mips[None, :] * 1000.0
        if self.measured is not None:
            latency = self.measured[:, [s for s, _ in network.actions]]
        n = len(workflow.operators)
        throughput = mips[None, :] / work[:, None] / 1000.0
        mbps = np.array([e.mbps for e in workflow.edges])
        return CostTables(latency, throughput, mbps, np.full(n, self.restart_ms), np.ones(n))


def riot_problem(
    name: str, size: int, objective: Objective | None = None, *, kind: str = "heterogeneous", folder: Path | None = None
) -> Problem:
    """The four-dimensional instance of a RIoT workflow on a published tree; homogeneous: all sites alike."""
    workflow, network = riot_workflow(name, folder), tree_network(size, folder)
    measured = None
    if kind == "homogeneous":
        alike = [replace(s, mips=19200.0, kind="RASPBERRY_PI", platforms=("minifi-java",)) for s in network.sites]
        network = Network(tuple(alike), network.links)
    else:
        latency = riot_latency_problem(name, size, folder)
        measured = latency.tables.latency
    tables = SpeedModel(measured=measured).tables(workflow, network)
    root = published_root(len(workflow.operators), size, 5)
    # A source is where its device is: free to move, it would follow the rest into the cloud, and nothing were left to
    # weigh.
    home = network.sites[network.actions[root[workflow.index["source"]]][0]].name
    pinned = Constraints(pinned=(("source", (home,)),))
    return build_problem(workflow, network, tables, root, objective or Objective.weighted(), pinned)


def yahoo_problem(size: int, objective: Objective | None = None, folder: Path | None = None) -> Problem:
    """The Yahoo workflow on the FIT IoT-LAB testbed: 7, 15 or 31 devices, three platforms."""
    folder = (folder or data_folder()) / "yahoo-fitiot"
    raw = json.loads(_read(folder / "yahoo_workflow.json"))
    names = {o["id"]: o["name"] for o in raw["operators"]}
    # the file writes edges from the sink up
    edges = [DataEdge(names[e["to"]], names[e["from"]], 1.0) for e in raw["edges"]]
    workflow = Workflow("yahoo", tuple(WorkflowOperator(n) for n in names.values()), tuple(edges))
    sites = [
        NetworkSite(
            s["siteName"],
            tuple(p["platformName"] for p in s["availablePlatforms"]),
            kind="CLOUD" if s["siteName"].endswith("cloud") else "A8",
        )
        for s in json.loads(_read(folder / f"network_{size}_1.json"))["sites"]
    ]
    links = [
        NetworkLink(k["from"], k["to"], float(k["latency"]))
        for k in json.loads(_read(folder / f"links_{size}_1.json"))["links"]
    ]
    network = Network(tuple(sites), tuple(links))
    by_platform = {p: read_latency(folder / f"yahoo_{size}_{p}.csv", workflow, network) for p in network.platforms}
    latency = np.stack([by_platform[p][:, s] for s, p in network.actions], axis=1)
    with np.errstate(divide="ignore"):
        throughput = np.where(np.isfinite(latency), 1.0 / latency, 0.0)
    n = len(workflow.operators)
    measured = CostTables(latency, throughput, np.ones(len(edges)), np.zeros(n), np.ones(n))
    random = JavaRandom(5)
    runs = [np.flatnonzero(np.isfinite(row)) for row in latency]
    root = tuple(int(r[random.next_int(len(r))]) for r in runs)
    return build_problem(workflow, network, measured, root, objective)
