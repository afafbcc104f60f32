"""An independent checker of the constraints III.4 to III.7 and IV.9, straight from the paper's definitions.

It shares no code with the planners: it reads a snapshot (the d, x and z that are 1) and recomputes everything.
`violations` returns sentences; an empty list is a feasible, causal plan that serves every admitted query.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from godwit.admission.model import SLACK, Catalog, HostNetwork
from godwit.admission.state import LedgerSnapshot


def violations(network: HostNetwork, catalog: Catalog, state: LedgerSnapshot, admitted: Iterable[int]) -> list[str]:
    """Everything that is wrong with a state; `admitted` are the requested streams that must be served."""
    return [
        *_demand(catalog, state, set(admitted)),
        *_availability(catalog, state),
        *_resources(network, catalog, state),
        *_links(network, catalog, state),
        *_causality(catalog, state),
    ]


def _demand(catalog: Catalog, state: LedgerSnapshot, admitted: set[int]) -> list[str]:
    """III.4a, III.4b and IV.9: requested streams are served by exactly one host, others by none."""
    hosts = defaultdict(list)
    for host, stream in state.served:
        hosts[stream].append(host)
    wrong = [f"III.4: {_name(catalog, s)} is served though no query asks for it" for s in hosts if s not in admitted]
    wrong += [f"III.4b: {_name(catalog, s)} is served by hosts {on}" for s, on in hosts.items() if len(on) > 1]
    return wrong + [f"IV.9: {_name(catalog, s)} is admitted but not served" for s in admitted if s not in hosts]


def _availability(catalog: Catalog, state: LedgerSnapshot) -> list[str]:
    """III.5: who runs, sends or serves must have the streams for it."""
    available = {(h, s) for s, stream in enumerate(catalog.streams) for h in stream.homes}
    available |= {(h, catalog.operators[o].output) for h, o in state.placed}
    available |= {(m, s) for _, m, s in state.flows}
    wrong = [
        f"III.5b: host {h} runs operator {o} without {_name(catalog, s)}"
        for h, o in state.placed
        for s in catalog.operators[o].inputs
        if (h, s) not in available
    ]
    wrong += [f"III.5c: host {h} sends {_name(catalog, s)} to {m} without having it" for h, m, s in state.flows
              if (h, s) not in available]  # fmt: skip
    return wrong + [f"III.4a: host {h} serves {_name(catalog, s)} without having it" for h, s in state.served
                    if (h, s) not in available]  # fmt: skip


def _resources(network: HostNetwork, catalog: Catalog, state: LedgerSnapshot) -> list[str]:
    """III.6b, III.6c, III.6d: what comes in, what goes out, what is computed."""
    cpu: dict[int, float] = defaultdict(float)
    into: dict[int, float] = defaultdict(float)
    out: dict[int, float] = defaultdict(float)
    for host, operator in state.placed:
        cpu[host] += catalog.operators[operator].cpu
    for source, target, stream in state.flows:
        out[source] += catalog.streams[stream].rate
        into[target] += catalog.streams[stream].rate
    for host, stream in state.served:
        out[host] += catalog.streams[stream].rate
    wrong = []
    for number, limits in enumerate(network.hosts):
        rows = (
            ("III.6d CPU", cpu, limits.cpu),
            ("III.6b NIC in", into, limits.nic_in),
            ("III.6c NIC out", out, limits.nic_out),
        )
        wrong += [
            f"{name} of '{limits.id}': {used[number]:.6g} of {limit:.6g}"
            for name, used, limit in rows
            if used[number] > limit + 10 * SLACK
        ]
    return wrong


def _links(network: HostNetwork, catalog: Catalog, state: LedgerSnapshot) -> list[str]:
    """III.6a, with the pairs that have no link at all."""
    load: dict[tuple[int, int], float] = defaultdict(float)
    for source, target, stream in state.flows:
        load[source, target] += catalog.streams[stream].rate
    return [
        f"III.6a link {h}->{m}: {used:.6g} of {network.bandwidth(h, m):.6g}"
        for (h, m), used in load.items()
        if h == m or used > network.bandwidth(h, m) + 10 * SLACK
    ]


def _causality(catalog: Catalog, state: LedgerSnapshot) -> list[str]:
    """III.7 in its meaning: from the homes, by operators and transfers, every used copy can be reached."""
    real = {(h, s) for s, stream in enumerate(catalog.streams) for h in stream.homes}
    waiting_ops, waiting_flows = set(state.placed), set(state.flows)
    progress = True
    while progress:
        ready = {(h, o) for h, o in waiting_ops if all((h, s) in real for s in catalog.operators[o].inputs)}
        moved = {(h, m, s) for h, m, s in waiting_flows if (h, s) in real}
        real |= {(h, catalog.operators[o].output) for h, o in ready} | {(m, s) for _, m, s in moved}
        waiting_ops -= ready
        waiting_flows -= moved
        progress = bool(ready or moved)
    wrong = [f"III.7: operator {o} on host {h} feeds itself" for h, o in waiting_ops]
    return wrong + [f"III.7: {_name(catalog, s)} from {h} to {m} has no real source" for h, m, s in waiting_flows]


def _name(catalog: Catalog, stream: int) -> str:
    return f"'{catalog.streams[stream].signature}'"
