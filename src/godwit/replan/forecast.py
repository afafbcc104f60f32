"""What a change of plan will cost under each strategy: length, silence, extra work, intermediate rows (Section 5).

    T_MS = T_match + T_move + sum of T_S over the states to compute, T_S = T_j |L| |R| + T_s |L| |R| sigma   (1, 3)
    T_PT = W with one level of joins, 2W with more                                                          (4)
    background: T_MS, of which T_S beside the old plan, on what that leaves of the machine; and what came since
    stateless-order: one epoch

The constants are this engine's, fitted to what was measured (`fit`). They go beyond the paper's: a state is computed by
a job, or if it is small by a direct plan, which costs something even if it is empty; and a hash join costs by rows read
and not by pairs looked at; where the paper's nested loop is meant, `read_s` is 0 and `pair_s` is T_j.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import astuple, dataclass, fields, replace
from functools import cached_property
from itertools import combinations

import numpy as np
from scipy.optimize import nnls

from godwit.replan.join_tree import JoinTree
from godwit.replan.load import BoxLoad, Geometry, JoinLoad, loads

#: states of at most this number of rows are read and joined without a job (`region/inherit.py`)
DIRECT_ROWS = 150_000


@dataclass(frozen=True)
class CostConstants:
    """Seconds. Those of work (`job_s`, `read_s`, `insert_s`, `direct_s`) are CPU time, fitted by `python -m bench.plan
    computed` on a small machine; reading and making rows could not be told apart there. The others are fitted to
    lengths of 0.07 to 16 s under 23 loads (`python -m bench.plan constants`)."""

    #: to publish an epoch and have every region work under it, beyond the micro-batches: too little to be told
    epoch_s: float = 0.0
    #: to start the job that computes one state
    job_s: float = 0.5
    #: per row read from a state
    read_s: float = 0.0
    #: per pair looked at (T_j)
    pair_s: float = 0.0
    #: per row made and kept (T_s)
    insert_s: float = 8.4e-6
    #: to compare two states' names (T_m), to share one (T_c)
    match_s: float = 1e-6
    cursor_s: float = 1e-5
    #: to compile one join that has not run before
    compile_s: float = 0.19
    #: to run a plan over few rows, without a job
    direct_s: float = 0.0097
    #: to publish an epoch that nobody waits for
    order_s: float = 0.0034
    #: to run one join of a plan before a query goes over to it (`region/rehearsal.py`)
    rehearse_s: float = 0.0159
    #: how many micro-batches an epoch waits for: part of that which is under way when it is published, and its own
    epoch_batches: float = 1.3
    #: how often a change waits until every stream has a row again: watermarks have passed its line then
    lines: float = 0.28


@dataclass(frozen=True)
class ChangeFeatures:
    """How often each constant counts, and what does not depend on constants."""

    epochs: float = 0.0
    jobs: float = 0.0
    read: float = 0.0
    pairs: float = 0.0
    inserted: float = 0.0
    compared: float = 0.0
    shared: float = 0.0
    #: joins that have not run before
    compiled: float = 0.0
    #: plans that run over few rows
    direct: float = 0.0
    #: epochs that nobody waits for
    orders: float = 0.0
    #: joins of plans that are rehearsed
    rehearsed: float = 0.0
    #: how long a micro-batch takes, summed over epochs (seconds)
    batches_s: float = 0.0
    #: how long it takes until every stream has a row again (seconds)
    heard_s: float = 0.0
    #: seconds of waiting for windows
    waits_s: float = 0.0

    def seconds(self, constants: CostConstants) -> float:
        counts: tuple[float, ...] = astuple(self)[:-1]
        each: tuple[float, ...] = astuple(constants)
        return self.waits_s + sum(count * cost for count, cost in zip(counts, each, strict=True))


@dataclass(frozen=True)
class Forecast:
    strategy: str
    #: from the start to the end of the change
    length_s: float
    #: for how long nothing comes out, beyond the calm gap between outputs
    silence_s: float
    #: rows processed that would not have been without the change, and what they cost
    extra_rows: float
    extra_s: float
    #: combinations kept at most while it lasts
    intermediate_rows: float

    def __str__(self) -> str:
        return (
            f"{self.strategy:<18} {self.length_s:8.2f} s  silence {self.silence_s:7.2f} s  "
            f"extra work {self.extra_s:8.3f} s ({self.extra_rows:,.0f} rows)  "
            f"intermediate rows {self.intermediate_rows:,.0f}"
        )


@dataclass(frozen=True)
class Computation:
    """A state of the new box that is joined from two others."""

    tree: JoinTree
    left_rows: float
    right_rows: float
    made: float


@dataclass(frozen=True)
class ChangeCase:
    """A change of a box under a load."""

    old: JoinTree
    new: JoinTree
    load: BoxLoad
    geometry: Geometry
    constants: CostConstants = CostConstants()
    #: share of the machine that the running plan leaves free
    free: float = 0.7
    #: micro-batches per second: a plan that runs beside another starts a job in each
    batches_per_s: float = 2.0
    #: how far apart rows of one result can lie (`JoinBox.span_us`); None: as the joins one by one say
    span_s: float | None = None
    #: whether the new plan has not run in this process: Spark compiles it
    fresh: bool = False

    @cached_property
    def before(self) -> tuple[JoinLoad, ...]:
        return loads(self.old, self.load, self.geometry)

    @cached_property
    def after(self) -> tuple[JoinLoad, ...]:
        return loads(self.new, self.load, self.geometry)

    @cached_property
    def unmatched(self) -> tuple[Computation, ...]:
        """The states that the new box keeps and the old one does not, inputs before outputs.

        A state that is computed from computed ones reads what those computations make. That is less than the paper's
        Equation 8 counts: its |S_BC| is that of a box that has always run, with combinations whose rows have left the
        leaves' states by now.
        """
        known = {node.covers for node in self.old.inner}
        found: dict[frozenset[str], Computation] = {}
        for join in self.after:
            left, right = (
                found[child.covers].made if child.covers in found else rows
                for child, rows in zip(join.tree.children, (join.left_rows, join.right_rows), strict=True)
            )
            if join.tree in self.new.inner and join.tree.covers not in known:
                made = left * right * join.sigma * join.near
                found[join.tree.covers] = Computation(join.tree, left, right, made)
        return tuple(found.values())


def equation_8(case: ChangeCase) -> float:
    """T_MS as the paper has it: nested loops over the states of a box that has always run."""
    inner = {j.tree: j for j in case.after if j.tree in {c.tree for c in case.unmatched}}
    pairs = [(j.left_rows * j.right_rows, j.sigma) for j in inner.values()]
    return sum(n * (case.constants.pair_s + case.constants.insert_s * sigma) for n, sigma in pairs)


def moving_state_features(case: ChangeCase) -> ChangeFeatures:
    """Equations 1 and 3, with the sizes that states have when they are computed one from the other."""
    n, m = len(case.old.joins), len(case.new.joins)
    todo = case.unmatched
    large = [j for j in todo if max(j.left_rows, j.right_rows) > DIRECT_ROWS]
    return ChangeFeatures(
        epochs=3,  # the joins let no row go; the new version takes over; the old one retires
        batches_s=3 * case.load.batch_s,
        heard_s=_all_heard_s(case.load),
        rehearsed=m,
        jobs=len(large),
        direct=len(todo) - len(large),
        read=sum(j.left_rows + j.right_rows for j in todo),
        pairs=sum(j.left_rows * j.right_rows for j in todo),
        inserted=sum(j.made for j in todo),
        compiled=_compiled(case),
        compared=4 * n * m,
        shared=2 * min(n, m),
    )


def parallel_track_features(case: ChangeCase) -> ChangeFeatures:
    # Both plans, the new one alone, and the end of both; the old version retires meanwhile.
    waits = _side_by_side_s(case)
    return ChangeFeatures(
        epochs=3, batches_s=3 * case.load.batch_s, compiled=_compiled(case), rehearsed=_rehearsed(case), waits_s=waits
    )


def _side_by_side_s(case: ChangeCase) -> float:
    """How long parallel track needs both plans: until rows are past the newest old one by two spans of a result
    (`change_progress.py`); where these are not known, Equation 4."""
    return track_length(case.old, case.geometry) if case.span_s is None else 2 * case.span_s


def background_features(case: ChangeCase) -> ChangeFeatures:
    """What moving state computes, slower by what the running plan takes; and at the switch what came since."""
    moving, slow, since = moving_state_features(case), 1 / max(case.free, 0.05), _came_since(case)
    return replace(
        moving,
        jobs=moving.jobs * slow,
        direct=moving.direct * slow + since.direct,
        read=moving.read * slow + since.read,
        pairs=moving.pairs * slow,
        inserted=moving.inserted * slow + since.inserted,
    )


def _came_since(case: ChangeCase) -> ChangeFeatures:
    """What `background` joins at the switch, while rows wait: all that came while states were made, and while an epoch
    was awaited; the new of each side with all of the other."""
    slow = 1 / max(case.free, 0.05)
    since_s = slow * _compute_s(moving_state_features(case), case.constants) + _epoch_s(case)
    made = {computed.tree for computed in case.unmatched}
    flows = [join for join in case.after if join.tree in made]
    return ChangeFeatures(
        direct=2 * len(flows),
        read=since_s * sum(join.left_rate + join.right_rate for join in flows),
        inserted=since_s * sum(join.rate for join in flows),
    )


def _compiled(case: ChangeCase) -> int:
    return len(case.new.joins) if case.fresh else 0


def _all_heard_s(load: BoxLoad) -> float:
    """Of streams whose rows come independently: when the latest of their next ones comes."""
    rates = [rate for rate in load.rates.values() if rate > 0]
    some = (chosen for count in range(1, len(rates) + 1) for chosen in combinations(rates, count))
    return sum((1 if len(chosen) % 2 else -1) / sum(chosen) for chosen in some)


def _epoch_s(case: ChangeCase) -> float:
    return case.constants.epoch_s + case.constants.epoch_batches * case.load.batch_s


def _rehearsed(case: ChangeCase) -> int:
    """Joins of the version that runs both plans, and of the new one."""
    return len(case.old.joins) + 2 * len(case.new.joins)


def stateless_order_features(case: ChangeCase) -> ChangeFeatures:
    return ChangeFeatures(orders=1)


def track_length(tree: JoinTree, geometry: Geometry) -> float:
    """Until no state of the old box holds an old row (Equation 4, for any bands): leaf rows stay as long as they are
    held; a combination with an old row is made within that time, and then stays as long as it is held itself."""
    leaves, inner = [0.0], [0.0]
    for node in tree.joins:
        spans = geometry(node)
        for child, held in zip(node.children, (spans.left_s, spans.right_s), strict=True):
            (leaves if child.is_leaf else inner).append(held)
    return max(leaves) + max(inner)


def forecasts(case: ChangeCase, calm_gap_s: float = 0.0) -> dict[str, Forecast]:
    """One per strategy."""
    constants = case.constants
    old_kept, new_kept = _kept(case.before), _kept(case.after)
    moving, track = moving_state_features(case), parallel_track_features(case)
    background, order = background_features(case), stateless_order_features(case)
    computed = moving.read + moving.inserted
    length = moving.seconds(constants)
    track_s, background_s = track.seconds(constants), background.seconds(constants)
    both = _side_by_side_s(case)
    flow = sum(case.load.rates.values())
    # The new box starts empty: on average half of its states are there in the first window (Equation 6).
    twice_rows = (flow + sum(j.rate for j in case.after[:-1])) * both * 0.75
    each_batch_s = len(case.new.joins) * constants.direct_s
    twice_s = _new_box_s(case) * both * 0.75 + both * case.batches_per_s * each_batch_s
    since = _came_since(case)
    since_s = since.seconds(constants)
    run_out_s = track_s + twice_s / max(case.free, 0.05)
    return {
        "pause-drain-resume": Forecast("pause-drain-resume", run_out_s, both, twice_rows, twice_s, old_kept + new_kept),
        "moving-state": Forecast(
            "moving-state",
            length,
            max(0.0, length - calm_gap_s),
            computed,
            _compute_s(moving, constants),
            max(old_kept, new_kept),
        ),
        "parallel-track": Forecast("parallel-track", track_s, 0.0, twice_rows, twice_s, old_kept + new_kept),
        "background": Forecast(
            "background",
            background_s,
            max(0.0, since_s - calm_gap_s),
            computed + since.read + since.inserted,
            _compute_s(moving, constants) + since_s,
            max(old_kept + sum(j.made for j in case.unmatched), new_kept),
        ),
        "stateless-order": Forecast("stateless-order", order.seconds(constants), 0.0, 0.0, 0.0, 0.0),
    }


DEFAULTS = CostConstants()


def fit(
    measured: Iterable[tuple[ChangeFeatures, float]], start: CostConstants = DEFAULTS, only: Collection[str] = ()
) -> CostConstants:
    """The constants under which forecasts are nearest to measured lengths (least squares, relative, none negative).
    What no measurement counts stays as it was, and so do all but `only` these, where some are named."""
    measured = [(features, length) for features, length in measured if length > 0]
    names = [f.name for f in fields(CostConstants)]
    free = [not only or name in only for name in names]
    weights = np.array([astuple(features)[: len(names)] for features, _ in measured])
    used = [k for k in range(len(names)) if measured and free[k] and weights[:, k].any()]
    if not used:
        return start
    known = weights @ np.where(free, 0.0, astuple(start))
    rest = np.array([length - features.waits_s for features, length in measured]) - known
    scale = np.array([1 / length for _, length in measured])
    # Counts range from two epochs to a billion pairs: columns of one size, or the solver cannot tell them apart.
    size = np.array([weights[:, k].max() for k in used])
    found, _ = nnls(weights[:, used] / size * scale[:, None], np.maximum(rest, 0.0) * scale)
    values: Mapping[str, float] = {names[k]: float(x / s) for k, x, s in zip(used, found, size, strict=True)}
    return CostConstants(**{name: values.get(name, getattr(start, name)) for name in names})


def _compute_s(features: ChangeFeatures, constants: CostConstants) -> float:
    c = constants
    started = features.jobs * c.job_s + features.direct * c.direct_s
    return started + features.read * c.read_s + features.pairs * c.pair_s + features.inserted * c.insert_s


def _new_box_s(case: ChangeCase) -> float:
    """What the new box takes per second, in the steady state (Equation 5, per second)."""
    return running_s(case.after, case.constants)


def running_s(joins: Iterable[JoinLoad], constants: CostConstants) -> float:
    """Seconds of work per second that joins take: every row is read and kept, every candidate pair looked at."""
    return sum(
        (constants.read_s + constants.insert_s) * (j.left_rate + j.right_rate) + constants.pair_s * j.candidates
        for j in joins
    )


def _kept(joins: tuple[JoinLoad, ...]) -> float:
    """Combinations of more than one row that a box keeps."""
    sides = [(j.tree.left, j.left_rows) for j in joins] + [(j.tree.right, j.right_rows) for j in joins]
    return sum(rows for child, rows in sides if not child.is_leaf)
