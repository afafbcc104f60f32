"""The paper's cluster deployment (Figure 7), simulated: 15 hosts, 300 streams of 10 kbit/s, SODA beside us."""

from __future__ import annotations

from bench.sqpr import results
from bench.sqpr.workload import Setting, build
from godwit.admission.check import violations
from godwit.admission.incremental import IncrementalPlanner
from godwit.admission.soda import Soda
from godwit.admission.state import AllocationLedger

#: 15 joins of 2 or 3 streams fill a host: a first join costs 20, a second one 10
HOST_CPU = 15 * 50 / 3
EPOCH = 50


def run() -> None:
    """Admitted after every 50 queries, and how load and traffic spread over hosts."""
    rows = []
    for seed in range(5):
        setting = Setting(seed, hosts=15, streams=300, queries=250, arities=(2, 3), nic=10_000.0, cpu=HOST_CPU)
        network, catalog, queries = build(setting)
        soda, mine = Soda(network, catalog), IncrementalPlanner(network, catalog)
        row: dict[str, object] = {"seed": seed, "soda": [], "godwit": [], "soda_load": {}, "godwit_load": {}}
        counts = {"soda": 0, "godwit": 0}
        for start in range(0, len(queries), EPOCH):
            batch = queries[start : start + EPOCH]
            counts["soda"] += sum(soda.epoch(batch))
            counts["godwit"] += sum(outcome.admitted for outcome in mine.admit_batch(batch))
            for name, ledger in (("soda", soda.ledger), ("godwit", mine.ledger)):
                assert not violations(network, catalog, ledger.snapshot(), set(ledger.served))
                row[name].append(counts[name])  # type: ignore[attr-defined]
                if start in (0, 2 * EPOCH):
                    row[f"{name}_load"][str(start + EPOCH)] = spread(ledger)  # type: ignore[index]
        rows.append(row)
        print({key: row[key] for key in ("seed", "soda", "godwit")}, flush=True)
        results.save("cluster", {"rows": rows})


def spread(ledger: AllocationLedger) -> dict[str, list[float]]:
    """CPU use and traffic of each host, sorted: the distributions of Figures 7(b) and 7(c)."""
    network = ledger.network
    traffic = (network.nic_in - ledger.in_free) + (network.nic_out - ledger.out_free)
    return {
        "cpu": sorted(round(float(v), 3) for v in (network.cpu - ledger.cpu_free) / network.cpu),
        "traffic": sorted(round(float(v), 2) for v in traffic),
    }
