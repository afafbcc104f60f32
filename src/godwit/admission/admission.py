"""Admission for a fleet: submit, withdraw, observe, hosts that come and go. Pure: values in, values out, no engine.

    admission = Admission(hosts, streams=base_streams)
    answer = admission.submit(RateQuery("q1", JoinSpec((Base("cars"), Base("trains")))))
    match answer:
        case Admitted(plan=plan): ...    # operators with hosts, transfers with relays, what is reused, what moves
        case Refused(reason=reason): ... # what is short, where, and the smallest addition that helps

Equal signatures are the same stream: two queries that share a join share its operator. A query once admitted is never
dropped for another one. Hosts, links, rates and costs may change; `Replanned` says what moved and what no longer fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from godwit.admission.answers import (
    Admitted,
    AdmittedPlan,
    Placement,
    Refused,
    Replanned,
    migrations,
    placement,
    plan_by_name,
)
from godwit.admission.explain import PlanNode, tree, users_of
from godwit.admission.incremental import AdmissionOutcome, IncrementalPlanner, PlannerOptions
from godwit.admission.model import AdmissionQuery, BaseStream, Catalog, Host, HostLink, HostNetwork, ObjectiveWeights
from godwit.admission.rates import Base, Node, RateModel, RateQuery, Unary, declare, expand, signature_of
from godwit.admission.refusal import explain, overload
from godwit.admission.scope import load_snapshot
from godwit.admission.state import AllocationLedger, LedgerSnapshot
from godwit.errors import AdmissionError

#: weights by name: as in the paper, save resources and leave hosts idle, or spread the load
WEIGHTS = {"paper": ObjectiveWeights.paper, "pack": ObjectiveWeights.pack, "balance": ObjectiveWeights.spread}


def weights_named(name: str) -> str:
    """The name, if there are such weights."""
    if name not in WEIGHTS:
        msg = f"weights '{name}' are unknown: choose one of {', '.join(WEIGHTS)}"
        raise AdmissionError(msg)
    return name


class Admission:
    """All admitted queries and where they run."""

    def __init__(
        self,
        hosts: Iterable[Host],
        links: Iterable[HostLink] | None = None,
        *,
        streams: Iterable[BaseStream] = (),
        weights: str = "paper",
        costs: RateModel | None = None,
        options: PlannerOptions | None = None,
        drift: float = 0.2,
    ) -> None:
        self._hosts = {host.id: host for host in hosts}
        self._links = None if links is None else list(links)
        self._streams: dict[str, BaseStream] = {}
        self._weights = weights_named(weights)
        self._options = options or PlannerOptions()
        self._drift = drift
        self.costs = costs or RateModel()
        #: admitted queries, in the order they came
        self._specs: dict[str, RateQuery] = {}
        self._queries: dict[str, AdmissionQuery] = {}
        #: what each query was planned with: CPU of its plan, and rate of its result
        self._planned: dict[str, tuple[float, float]] = {}
        self._stranded: dict[str, Refused] = {}
        self._planner = self._fresh()
        for stream in streams:
            self.declare(stream)

    # -- what is there -------------------------------------------------------------------------------------------
    @property
    def ledger(self) -> AllocationLedger:
        """The state, for checkers and reports."""
        return self._planner.ledger

    @property
    def admitted(self) -> tuple[str, ...]:
        """Ids of the admitted queries that run."""
        return tuple(query for query in self._specs if query not in self._stranded)

    def knows(self, query: str) -> bool:
        """Whether a query was admitted, running or not."""
        return query in self._specs

    def plan(self, query: str) -> AdmittedPlan:
        """The plan an admitted query runs by."""
        self._known(query)
        if query in self._stranded:
            msg = f"query '{query}' cannot run for now: {self._stranded[query].reason}"
            raise AdmissionError(msg)
        return plan_by_name(self.ledger, self._queries[query].result)

    def tree(self, query: str) -> PlanNode:
        """The plan as a tree, with the other queries that share its parts."""
        self.plan(query)
        others = {name: q.result for name, q in self._queries.items() if name != query and name not in self._stranded}
        return tree(self.ledger, self._queries[query].result, users_of(self.ledger, others))

    def usage(self) -> dict[str, dict[str, tuple[float, float]]]:
        """Host -> resource -> (used, capacity)."""
        book = self.ledger
        rows = {"cpu": book.cpu_free, "nic_in": book.in_free, "nic_out": book.out_free}
        return {
            host.id: {
                name: (getattr(host, name) - float(free[number]), getattr(host, name)) for name, free in rows.items()
            }
            for number, host in enumerate(book.network.hosts)
        }

    def rate(self, signature: str) -> float | None:
        """What a stream is taken to bring, if it is known."""
        catalog = self._planner.catalog
        return catalog.streams[catalog.number(signature)].rate if catalog.knows(signature) else None

    def declare(self, stream: BaseStream) -> None:
        """Make a base stream known. Known ones keep their observed rate; new homes mean a change (`moved`)."""
        self._streams[stream.id] = stream
        declare(self._planner.catalog, self._planner.network, stream, self.costs)

    # -- queries come and go -------------------------------------------------------------------------------------
    def submit(self, spec: RateQuery, *, what_if: bool = False) -> Admitted | Refused:
        """Admit a query or say why not; with `what_if`, change nothing."""
        return self.try_out(spec)[0] if what_if else self.submit_batch([spec])[0]

    def try_out(self, spec: RateQuery) -> tuple[Admitted | Refused, PlanNode | None]:
        """What `submit` would answer, and the plan as a tree; nothing changes."""
        before = (self.ledger.snapshot(), dict(self._planner.queries))
        answer = self.submit_batch([spec])[0]
        shown = self.tree(spec.id) if isinstance(answer, Admitted) else None
        self._undo(before, spec.id)
        return answer, shown

    def submit_batch(self, specs: Sequence[RateQuery]) -> list[Admitted | Refused]:
        """Admit several queries together: those first that add least to what runs. Answers in the order given."""
        twice = [
            spec.id for n, spec in enumerate(specs) if spec.id in self._specs or spec.id in [s.id for s in specs[:n]]
        ]
        if twice:
            msg = f"query id '{twice[0]}' is taken: withdraw that query first, or choose another id"
            raise AdmissionError(msg)
        queries = [expand(self._planner.catalog, spec, self.costs) for spec in specs]
        made = {s for s, hosts in self.ledger.made.items() if hosts}
        running = self._placements()
        answers: dict[str, Admitted | Refused] = {}
        for spec, query in self._cheapest_first(specs, queries):
            outcome = self._planner.admit(query)
            answers[spec.id] = self._answer(spec, query, outcome, made, running)
            if outcome.admitted:
                made, running = {s for s, hosts in self.ledger.made.items() if hosts}, self._placements()
                self._remember(spec, query)
        return [answers[spec.id] for spec in specs]

    def withdraw(self, query: str) -> Replanned:
        """End a query; what only it needed is dropped, and stranded queries are tried again."""
        self._known(query)
        self._forget(query)
        return self._retry_stranded()

    # -- the world changes ---------------------------------------------------------------------------------------
    def observe(self, rates: Mapping[str, float]) -> Replanned:
        """Correct rates by what was measured; re-plan queries whose cost drifted or whose resources run short."""
        self.costs.observe(rates)
        return self._rebuild()

    def host_joined(self, host: Host, links: Iterable[HostLink] = ()) -> Replanned:
        """A new host; stranded queries are tried on it."""
        if host.id in self._hosts:
            msg = f"host '{host.id}' is there already: let it leave first, or give the new one another id"
            raise AdmissionError(msg)
        self._hosts[host.id] = host
        if self._links is not None:
            self._links += links
        return self._rebuild()

    def host_left(self, host: str) -> Replanned:
        """A host is gone, with its operators and as a home; its queries are planned again where they can be."""
        self._planner.network.number(host)
        del self._hosts[host]
        if self._links is not None:
            self._links = [link for link in self._links if host not in (link.source, link.target)]
        return self._rebuild()

    def moved(self, stream: str, homes: Sequence[str]) -> Replanned:
        """A base stream now enters at other hosts (a source that hopped from site to site)."""
        if stream not in self._streams:
            msg = f"'{stream}' is no base stream: declare it first"
            raise AdmissionError(msg)
        self._streams[stream] = replace(self._streams[stream], homes=tuple(homes))
        return self._rebuild()

    def refresh(
        self,
        hosts: Iterable[Host],
        links: Iterable[HostLink] | None,
        streams: Iterable[BaseStream],
        specs: Iterable[RateQuery],
    ) -> Replanned:
        """Everything may be other than it was; what runs stays where it is, as far as it can.

        `specs` says what the admitted queries are (others are dropped).
        """
        self._hosts = {host.id: host for host in hosts}
        self._links = None if links is None else list(links)
        self._streams = {stream.id: stream for stream in streams}
        self._specs = {spec.id: spec for spec in specs}
        self._planned = {name: then for name, then in self._planned.items() if name in self._specs}
        return self._rebuild()

    def weigh(self, node: Node) -> tuple[float, float]:
        """The CPU that a plan would add to what runs, and the rate of the streams that it would newly make."""
        catalog = self._planner.catalog

        def visit(node: Node) -> tuple[float, float, float]:
            signature = signature_of(node)
            if catalog.knows(signature) and self.ledger.holders(catalog.number(signature)):
                return 0.0, 0.0, catalog.streams[catalog.number(signature)].rate
            if isinstance(node, Base):
                return 0.0, 0.0, 0.0
            below = [visit(one) for one in ((node.input,) if isinstance(node, Unary) else node.inputs)]
            cpu, made, rate_in = (sum(column) for column in zip(*below, strict=True))
            steps = max(1, len(below) - 1)
            own = steps * (node.cost * rate_in if node.cpu is None else node.cpu)
            rate = self.costs.rate(signature, node.selectivity * rate_in)
            return cpu + own, made + rate, rate

        cpu, made, _ = visit(node)
        return cpu, made

    # -- inside --------------------------------------------------------------------------------------------------
    def _fresh(self) -> IncrementalPlanner:
        network = HostNetwork.of(self._hosts.values(), self._links)
        return IncrementalPlanner(network, Catalog(), WEIGHTS[self._weights](network), self._options)

    def _known(self, query: str) -> None:
        if query not in self._specs:
            known = ", ".join(list(self._specs)[:8]) or "none"
            msg = f"query '{query}' is not admitted; admitted queries: {known}"
            raise AdmissionError(msg)

    def _placements(self) -> set[Placement]:
        book = self.ledger
        return {placement(book.catalog, book.network, o, h) for o, hosts in book.placed.items() for h in hosts}

    def _cheapest_first(
        self, specs: Sequence[RateQuery], queries: Sequence[AdmissionQuery]
    ) -> Iterable[tuple[RateQuery, AdmissionQuery]]:
        waiting = list(zip(specs, queries, strict=True))
        while waiting:
            first = min(range(len(waiting)), key=lambda n: self._planner.addition(waiting[n][1]))
            yield waiting.pop(first)

    def _answer(
        self, spec: RateQuery, query: AdmissionQuery, outcome: AdmissionOutcome, made: set[int], running: set[Placement]
    ) -> Admitted | Refused:
        if not outcome.admitted:
            short = explain(self.ledger, query, self._planner.prices())
            return Refused(spec.id, short.reason, short.additions, outcome.proved or not short.additions)
        plan = plan_by_name(self.ledger, query.result)
        catalog = self.ledger.catalog
        reused = tuple(p.output for p in plan.operators if catalog.number(p.output) in made)
        return Admitted(spec.id, plan, reused, migrations(running, self._placements()), outcome.step)

    def _remember(self, spec: RateQuery, query: AdmissionQuery) -> None:
        self._specs[spec.id] = spec
        self._queries[spec.id] = query
        self._planned[spec.id] = self._estimate(query)

    def _estimate(self, query: AdmissionQuery) -> tuple[float, float]:
        plan = plan_by_name(self.ledger, query.result)
        return sum(p.cpu for p in plan.operators), self.ledger.catalog.streams[query.result].rate

    def _forget(self, query: str) -> None:
        gone = self._queries.pop(query)
        del self._specs[query]
        self._planned.pop(query, None)
        self._stranded.pop(query, None)
        shared = any(other.result == gone.result for other in self._queries.values())
        if not shared and gone.result in self.ledger.served:
            self._planner.withdraw(gone)

    def _undo(self, before: tuple[LedgerSnapshot, dict[int, AdmissionQuery]], query: str) -> None:
        """Back to the state before a query was tried."""
        self._specs.pop(query, None)
        self._queries.pop(query, None)
        self._planned.pop(query, None)
        state, queries = before
        self._planner.restore(load_snapshot(self.ledger.network, self.ledger.catalog, state), queries)

    def _retry_stranded(self) -> Replanned:
        running = self._placements()
        back = []
        for query in list(self._stranded):
            if self._planner.admit(self._queries[query]).admitted:
                del self._stranded[query]
                self._planned[query] = self._estimate(self._queries[query])
                back.append(query)
        return Replanned(tuple(back), migrations(running, self._placements()), (), tuple(self._stranded.values()))

    def _rebuild(self) -> Replanned:
        """Number everything again, carry the plan over by name, then re-plan what is broken, drifted or short."""
        old, running = self.ledger, self._placements()
        self._planner = self._fresh()
        network, catalog = self._planner.network, self._planner.catalog
        for stream in self._streams.values():
            homes = tuple(home for home in stream.homes if home in self._hosts)
            declare(catalog, network, replace(stream, homes=homes), self.costs)
        self._queries = {name: expand(catalog, spec, self.costs) for name, spec in self._specs.items()}
        carried = self._carry(old)
        served = {query.result: query for query in self._queries.values() if query.result in carried.served}
        self._planner.restore(carried, served)
        replanned, short = self._replan_drifted()
        stranded = self._replan_lost()
        return Replanned(
            tuple(replanned), migrations(running, self._placements()), tuple(short), tuple(stranded)
        )  # fmt: skip

    def _carry(self, old: AllocationLedger) -> AllocationLedger:
        """The old plan in the new numbers, without what lost its host or its source."""
        network, catalog = self._planner.network, self._planner.catalog
        host = {
            h: network.index[old.network.hosts[h].id]
            for h in range(len(old.network))
            if old.network.hosts[h].id in network.index
        }
        names = [stream.signature for stream in old.catalog.streams]
        stream = {s: catalog.number(name) for s, name in enumerate(names) if catalog.knows(name)}
        wanted = {query.result for query in self._queries.values()}
        state = old.snapshot()
        placed = set()
        for h, o in state.placed:
            what = old.catalog.operators[o]
            if h in host and all(s in stream for s in (*what.inputs, what.output)):
                inputs = tuple(stream[s] for s in what.inputs)
                placed.add(
                    (host[h], catalog.add_operator(inputs, stream[what.output], what.cpu, what.kind, what.state))
                )
        flows = {(host[g], host[m], stream[s]) for g, m, s in state.flows if g in host and m in host and s in stream}
        served = {(host[h], stream[s]) for h, s in state.served if h in host and s in stream and stream[s] in wanted}
        return load_snapshot(network, catalog, LedgerSnapshot(frozenset(served), frozenset(flows), frozenset(placed)))

    def _replan_drifted(self) -> tuple[list[str], list[Refused]]:
        """Re-plan queries whose estimates drifted past the threshold, or that use an overdrawn resource."""
        replanned, short = [], []
        for name, query in self._queries.items():
            if query.result not in self.ledger.served:
                continue
            if not (self._drifted(name, query) or not self.ledger.fits()):
                continue
            if self._planner.replan(query):
                replanned.append(name)
            elif not self.ledger.fits():
                why = overload(self.ledger)
                short.append(Refused(name, why.reason, why.additions))
            self._planned[name] = self._estimate(query)
        return replanned, [] if self.ledger.fits() else short

    def _drifted(self, name: str, query: AdmissionQuery) -> bool:
        now, then = self._estimate(query), self._planned.get(name, (0.0, 0.0))
        return any(abs(a - b) > self._drift * max(b, 1e-9) for a, b in zip(now, then, strict=True))

    def _replan_lost(self) -> list[Refused]:
        """Plan queries again whose plan lost a host or a source; those that do not fit are stranded."""
        self._stranded = {}
        for name, query in self._queries.items():
            outcome = self._planner.admit(query)
            if outcome.admitted:
                self._planned[name] = self._estimate(query)
            else:
                why = explain(self.ledger, query, self._planner.prices())
                self._stranded[name] = Refused(name, why.reason, why.additions, outcome.proved)
        return list(self._stranded.values())
