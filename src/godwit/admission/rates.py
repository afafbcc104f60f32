"""One cost model: from a query's expression to streams, operators, rates, costs and state.

A query is a tree of `Base`, `Unary` (filter, projection, aggregate) and `Join` nodes. A join of n inputs may be
computed in any order: every connected subset of its inputs is a stream, every split of a subset in two is an
operator. All estimates are linear in the input rates, as in the paper, and none depends on the order of the joins:

    rate of a filter, projection or aggregate   selectivity * rate of its input
    rate of the join of a subset                share of the subset * sum of its inputs' rates
    CPU of an operator                          cost * sum of its inputs' rates
    state of an operator                        window * sum of its inputs' rates

What was observed replaces what was estimated (`RateModel.observe`), for the stream itself and for all that is computed
from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from godwit.admission.model import AdmissionQuery, BaseStream, Catalog, HostNetwork
from godwit.errors import AdmissionError

#: more inputs than this in one join would mean more than 8,000 operators
MAX_JOIN_INPUTS = 8


@dataclass(frozen=True)
class Base:
    """A base stream, by id."""

    stream: str


@dataclass(frozen=True)
class Unary:
    """A filter, projection or aggregate. `signature` is the canonical name of its output, input included."""

    input: Node
    signature: str
    selectivity: float = 1.0
    #: CPU for each unit of input rate
    cost: float = 1.0
    kind: str = "filter"
    #: seconds of input it keeps
    window: float = 0.0
    #: CPU whatever the rate, in place of `cost`
    cpu: float | None = None


@dataclass(frozen=True)
class Predicate:
    """A condition between two inputs of a join, by position."""

    left: int
    right: int
    text: str
    selectivity: float = 0.003


@dataclass(frozen=True)
class JoinSpec:
    """A join of two or more inputs, in any order. Without predicates every subset may be joined."""

    inputs: tuple[Node, ...]
    predicates: tuple[Predicate, ...] = ()
    #: share of the input that comes out, where no predicate says otherwise
    selectivity: float = 0.003
    cost: float = 1.0
    window: float = 10.0
    #: CPU whatever the rates, in place of `cost`
    cpu: float | None = None


Node = Base | Unary | JoinSpec


@dataclass(frozen=True)
class RateQuery:
    """What a user submits."""

    id: str
    root: Node


@dataclass
class RateModel:
    """Estimates, corrected by observations."""

    #: shares of join subsets by signature, where they are known better than by the predicates
    shares: Mapping[str, float] | Callable[[str], float | None] = field(default_factory=dict)
    #: rates measured in the running system, by signature
    observed: dict[str, float] = field(default_factory=dict)

    def observe(self, rates: Mapping[str, float]) -> None:
        """Remember measured rates."""
        for signature, rate in rates.items():
            if not math.isfinite(rate) or rate < 0:
                msg = f"observed rate of '{signature}' is {rate}: give a finite rate of at least 0"
                raise AdmissionError(msg)
            self.observed[signature] = rate

    def share(self, signature: str) -> float | None:
        """The known share of a join subset, if any."""
        return self.shares(signature) if callable(self.shares) else self.shares.get(signature)

    def rate(self, signature: str, estimate: float) -> float:
        """The observed rate, or else the estimate."""
        return self.observed.get(signature, estimate)


def declare(catalog: Catalog, network: HostNetwork, stream: BaseStream, costs: RateModel) -> int:
    """Enter a base stream. A stream without a home is legal: queries over it are refused, saying so."""
    if not math.isfinite(stream.rate) or stream.rate < 0:
        msg = f"base stream '{stream.id}' has rate {stream.rate}: give a finite rate of at least 0"
        raise AdmissionError(msg)
    homes = [network.number(home) for home in stream.homes]
    return catalog.add_stream(stream.id, costs.rate(stream.id, stream.rate), homes)


def expand(catalog: Catalog, spec: RateQuery, costs: RateModel) -> AdmissionQuery:
    """Enter everything that may appear in a plan for the query, inputs before outputs."""
    streams: dict[int, None] = {}
    operators: dict[int, None] = {}
    result = _enter(catalog, spec, spec.root, costs, streams, operators)
    return AdmissionQuery(spec.id, result, tuple(streams), tuple(operators))


def _enter(
    catalog: Catalog,
    spec: RateQuery,
    node: Node,
    costs: RateModel,
    streams: dict[int, None],
    operators: dict[int, None],
) -> int:
    if isinstance(node, Base):
        if not catalog.knows(node.stream):
            msg = f"query '{spec.id}' reads '{node.stream}', which is no base stream: declare it, with rate and homes"
            raise AdmissionError(msg)
        number = catalog.number(node.stream)
        streams[number] = None
        return number
    if isinstance(node, Unary):
        below = _enter(catalog, spec, node.input, costs, streams, operators)
        return _enter_unary(catalog, node, below, costs, streams, operators)
    if not 2 <= len(node.inputs) <= MAX_JOIN_INPUTS:
        msg = f"query '{spec.id}' joins {len(node.inputs)} inputs: a join takes 2 to {MAX_JOIN_INPUTS}"
        raise AdmissionError(msg)
    leaves = [_enter(catalog, spec, leaf, costs, streams, operators) for leaf in node.inputs]
    if len(set(leaves)) != len(leaves):
        msg = f"query '{spec.id}' joins a stream with itself: give each side its own signature (say, with a projection)"
        raise AdmissionError(msg)
    return _enter_join(catalog, spec, node, leaves, costs, streams, operators)


def _enter_unary(
    catalog: Catalog, node: Unary, below: int, costs: RateModel, streams: dict[int, None], operators: dict[int, None]
) -> int:
    rate_in = catalog.streams[below].rate
    output = catalog.add_stream(node.signature, costs.rate(node.signature, node.selectivity * rate_in))
    streams[output] = None
    cpu = node.cost * rate_in if node.cpu is None else node.cpu
    operators[catalog.add_operator((below,), output, cpu, node.kind, node.window * rate_in)] = None
    return output


def _enter_join(
    catalog: Catalog,
    spec: RateQuery,
    node: JoinSpec,
    leaves: list[int],
    costs: RateModel,
    streams: dict[int, None],
    operators: dict[int, None],
) -> int:
    """Enter all connected subsets, small ones first, and all ways to split each of them in two."""
    made: dict[frozenset[int], int] = {frozenset([position]): leaf for position, leaf in enumerate(leaves)}
    names = [catalog.streams[leaf].signature for leaf in leaves]
    for size in range(2, len(leaves) + 1):
        for chosen in combinations(range(len(leaves)), size):
            subset = frozenset(chosen)
            splits = [(left, subset - left) for left in _halves(subset) if _joined(node, left, subset - left, made)]
            if not splits:
                continue
            signature = join_signature(names, node, subset)
            total = sum(catalog.streams[leaves[position]].rate for position in subset)
            share = costs.share(signature)
            estimate = total * (_mean_share(node, subset) if share is None else share)
            output = made[subset] = catalog.add_stream(signature, costs.rate(signature, estimate))
            streams[output] = None
            for left, right in splits:
                inputs = (made[left], made[right])
                rate_in = sum(catalog.streams[number].rate for number in inputs)
                cpu = node.cost * rate_in if node.cpu is None else node.cpu
                operator = catalog.add_operator(inputs, output, cpu, "join", node.window * rate_in)
                operators[operator] = None
    whole = frozenset(range(len(leaves)))
    if whole not in made:
        msg = f"query '{spec.id}': its predicates do not connect all inputs of the join; add one for each lone input"
        raise AdmissionError(msg)
    return made[whole]


def join_signature(names: Sequence[str], node: JoinSpec, subset: frozenset[int]) -> str:
    """Canonical: sorted inputs, then the sorted predicates that hold between them."""
    inputs = sorted(names[position] for position in subset)
    texts = sorted(p.text for p in node.predicates if p.left in subset and p.right in subset)
    return f"({' * '.join(inputs)})" + (f"[{' and '.join(texts)}]" if texts else "")


def signature_of(node: Node) -> str:
    """The canonical name of a node's output."""
    if isinstance(node, Base):
        return node.stream
    if isinstance(node, Unary):
        return node.signature
    return join_signature([signature_of(leaf) for leaf in node.inputs], node, frozenset(range(len(node.inputs))))


def _halves(subset: frozenset[int]) -> list[frozenset[int]]:
    """One of the two halves of each split: the one with the smallest member."""
    first, *rest = sorted(subset)
    return [frozenset((first, *others)) for size in range(len(rest)) for others in combinations(rest, size)]


def _joined(node: JoinSpec, left: frozenset[int], right: frozenset[int], made: Mapping[frozenset[int], int]) -> bool:
    if left not in made or right not in made:
        return False
    if not node.predicates:
        return True
    return any({p.left, p.right} & left and {p.left, p.right} & right for p in node.predicates)


def _mean_share(node: JoinSpec, subset: frozenset[int]) -> float:
    """Geometric mean of the predicates inside the subset: an order-free share that stays linear in the rates."""
    inside = [max(p.selectivity, 1e-12) for p in node.predicates if p.left in subset and p.right in subset]
    if not inside:
        return node.selectivity
    return math.exp(sum(math.log(value) for value in inside) / len(inside))
