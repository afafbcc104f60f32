"""Schedules: what happens in a simulated run, as a list of small values that can be read, printed and replayed.

An action that makes no sense when its turn comes (a site fails that is not there) does nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from godwit.migration.phases import AUTO, KEY_STRATEGIES, REPLICA
from godwit.model.keys import BUCKETS
from godwit.sim.worlds import (
    CHAINS,
    DEVICES,
    DISORDER,
    FEEDS,
    KEYED,
    KINDS,
    LEAVES,
    LONGER,
    OUTER,
    OUTER_KEYED,
    PARENT,
    RANKED,
    REGIONS,
    SHARED_CHAINS,
)

#: moments at which a step may die
MOMENTS = ("polled", "staged", "committed")
#: (event time, key, value)
Reading = tuple[int, int, int]


@dataclass(frozen=True)
class Sight:
    """How much of what is there a step sees: for each peer and for sources 0 (nothing), 1 (half) or 2 (all)."""

    peers: tuple[int, ...] = (2, 2)
    sources: int = 2
    #: False: no more of the control log than it must see
    control: bool = True


@dataclass(frozen=True)
class Send:
    """A device sends readings, or keeps them while it is away."""

    device: str
    stream: str
    readings: tuple[Reading, ...]


@dataclass(frozen=True)
class Move:
    device: str
    site: str | None


@dataclass(frozen=True)
class Leave:
    """A device is removed; what it sent may still be unread."""

    device: str


@dataclass(frozen=True)
class Enter:
    """A device comes, or comes back, and feeds its streams."""

    device: str
    site: str | None


@dataclass(frozen=True)
class Forget:
    """Whoever has left, and has been read to the end everywhere, is forgotten."""


@dataclass(frozen=True)
class Put:
    """Somebody puts an operator of a query on a site."""

    query: str
    operator: int
    site: str


@dataclass(frozen=True)
class Lose:
    site: str
    failed: bool


@dataclass(frozen=True)
class Return:
    """A site that was lost is back, with its link."""

    site: str


@dataclass(frozen=True)
class Cut:
    site: str


@dataclass(frozen=True)
class Squeeze:
    """The capacity of a site changes."""

    site: str
    cpu: int


@dataclass(frozen=True)
class Tick:
    """A region works on what it sees, and perhaps dies over it."""

    region: str
    sight: Sight
    crash: str = ""


@dataclass(frozen=True)
class Deliver:
    """The coordinator gets this many of the messages that are under way."""

    count: int
    #: the newest first: messages overtake each other
    reverse: bool = False


@dataclass(frozen=True)
class Down:
    region: str


@dataclass(frozen=True)
class Up:
    region: str


@dataclass(frozen=True)
class Timeout:
    """Whoever has not acknowledged by now is too late."""


@dataclass(frozen=True)
class Wait:
    """Time passes for the regions."""

    seconds: float


@dataclass(frozen=True)
class Settle:
    """Everybody comes to rest before it goes on."""


@dataclass(frozen=True)
class SubmitQuery:
    name: str
    kind: str
    over: int
    #: only as far as its lowest join or window, for a query of another shape
    cut: bool = False


@dataclass(frozen=True)
class WithdrawQuery:
    name: str


@dataclass(frozen=True)
class MoveKeys:
    """Keys of a query's first stateful operator go to a site: these, or ("buckets", low, high)."""

    query: str
    keys: tuple[int, ...] | tuple[str, int, int]
    site: str
    strategy: str


@dataclass(frozen=True)
class CancelKeys:
    """Whatever migration of keys can still be given up is."""


@dataclass(frozen=True)
class RefreshReplicas:
    """Replicas of keys are sent what has changed."""


@dataclass(frozen=True)
class ChangePlan:
    """A query's streams are joined in another order from now on."""

    query: str
    order: str
    strategy: str
    #: queries with which it shares operators keep their order
    alone: bool = False


@dataclass(frozen=True)
class FailAhead:
    """What a query's next version lacks cannot be made: its change of plan is given up."""

    query: str


@dataclass(frozen=True)
class AdvancePlans:
    """Whatever change of plan can go on does."""


Action = (
    Send
    | Move
    | Leave
    | Enter
    | Forget
    | Put
    | Lose
    | Return
    | Cut
    | Squeeze
    | Tick
    | Deliver
    | Down
    | Up
    | Timeout
    | Wait
    | Settle
    | SubmitQuery
    | WithdrawQuery
    | MoveKeys
    | CancelKeys
    | RefreshReplicas
    | ChangePlan
    | FailAhead
    | AdvancePlans
)


@dataclass(frozen=True)
class Schedule:
    seed: int
    rule: str
    strategy: str
    actions: tuple[Action, ...]
    #: whether queries tap what they have in common with others
    shares: bool = False
    #: whether rows that nobody waits for gather (`protocol/gathering.py`)
    gathers: bool = False

    def script(self) -> str:
        """For people: one action a line."""
        lines = [f"seed {self.seed}: rule {self.rule}, redeployment {self.strategy}"]
        return "\n".join([*lines, *(f"  {number:>3}  {action}" for number, action in enumerate(self.actions))])


def draw(seed: int, longest: int = 40) -> Schedule:
    """A random schedule; the same seed gives the same one."""
    rng = Random(seed)
    rule = rng.choice(["bottom-up", "bottom-up", "top-down", "nearest-common-ancestor"])
    strategy = rng.choice(["incremental"] * 3 + ["holistic-serial", "holistic-concurrent"])
    kind = rng.choice(list(KINDS))
    drawing = _Drawing(rng)
    actions: list[Action] = [SubmitQuery("q0", kind, 1)]
    if rng.random() < 0.3:
        actions.append(SubmitQuery("q1", rng.choice([kind, rng.choice(list(KINDS))]), rng.choice([0, 1])))
    actions += [drawing.one() for _ in range(rng.randint(longest // 4, longest))]
    return Schedule(seed, rule, strategy, tuple(actions))


def draw_outer(seed: int) -> Schedule:
    """The schedule of a seed with outer, semi and anti joins as its queries."""
    drawn, rng = draw(seed), Random(seed)
    actions = (replace(a, kind=rng.choice(list(OUTER))) if isinstance(a, SubmitQuery) else a for a in drawn.actions)
    return replace(drawn, actions=tuple(actions))


def draw_passing(seed: int) -> Schedule:
    """The schedule of a seed with queries that answer each row; devices hop more often."""
    drawn, rng = draw(seed, 60), Random(seed)
    actions: list[Action] = []
    for action in drawn.actions:
        if isinstance(action, Send) and rng.random() < 0.4:
            actions += [action, Move(action.device, rng.choice(LEAVES)), Deliver(4, False)]
        actions.append(replace(action, kind="passing") if isinstance(action, SubmitQuery) else action)
    return replace(drawn, actions=tuple(actions))


def draw_scattered(seed: int) -> Schedule:
    """The same schedule with queries whose results leave wherever their rows are, some beside one whose do not."""
    drawn, rng = draw_passing(seed), Random(seed)
    kinds = {"q1": "passing"} if rng.random() < 0.3 else {}
    submitted = (
        replace(action, kind=kinds.get(action.name, "scattered")) if isinstance(action, SubmitQuery) else action
        for action in drawn.actions
    )
    return replace(drawn, actions=tuple(submitted))


def draw_moving_sinks(seed: int) -> Schedule:
    """The same schedule, and now and then the place where a query's results leave moves."""
    drawn, rng = draw_passing(seed), Random(seed)
    actions: list[Action] = []
    for action in drawn.actions:
        actions.append(action)
        if rng.random() < 0.12:
            actions += [Put(rng.choice(["q0", "q0", "q1"]), 2, rng.choice([*PARENT, "c"])), Deliver(4, False)]
    return replace(drawn, actions=tuple(actions))


def draw_keys(seed: int, longest: int = 60) -> Schedule:
    """A random schedule that migrates keys, by all strategies, among everything else that may happen."""
    rng = Random(seed)
    rule = rng.choice(["bottom-up", "top-down", "nearest-common-ancestor"])
    redeployment = rng.choice(["incremental"] * 4 + ["holistic-concurrent"])
    kind = rng.choice(["running", "over", *KEYED])
    if kind in LONGER and seed % 2:
        kind = LONGER[kind].__name__
    drawing = _KeyDrawing(rng)
    actions: list[Action] = [SubmitQuery("q0", kind, 0)]
    if rng.random() < 0.2:
        actions.append(SubmitQuery("q1", kind, 1))
    actions += [drawing.one() for _ in range(rng.randint(longest // 4, longest))]
    return Schedule(seed, rule, redeployment, tuple(actions))


def draw_outer_keys(seed: int) -> Schedule:
    """The same schedule, with joins in which rows without a partner count."""
    drawn, rng = draw_keys(seed), Random(seed)
    kind = rng.choice(list(OUTER_KEYED))
    actions = (replace(a, kind=kind) if isinstance(a, SubmitQuery) else a for a in drawn.actions)
    return replace(drawn, actions=tuple(actions))


def draw_ranked_keys(seed: int) -> Schedule:
    """The same schedule, with ranks and window functions that look ahead. Where the time is part of the key, keys go by
    their buckets: there are too many of them to be named."""
    drawn, rng = draw_keys(seed), Random(seed)
    kind = rng.choice(list(RANKED))
    actions: list[Action] = []
    for action in drawn.actions:
        if isinstance(action, SubmitQuery):
            action = replace(action, kind=kind)
        elif isinstance(action, MoveKeys) and kind == "ranked":
            low, high = sorted(rng.sample(range(BUCKETS + 1), 2))
            action = replace(action, keys=("buckets", low, high))
        actions.append(action)
    return replace(drawn, actions=tuple(actions))


def draw_single_keys(seed: int) -> Schedule:
    """The same schedule, but listed keys are asked to go one by one: those that begin together go as one."""
    drawn = draw_keys(seed)
    actions: list[Action] = []
    for action in drawn.actions:
        if isinstance(action, MoveKeys) and action.keys[0] != "buckets":
            actions += [replace(action, keys=(int(key),)) for key in action.keys]
        else:
            actions.append(action)
    return replace(drawn, actions=tuple(actions))


def draw_replicas(seed: int) -> Schedule:
    """The same schedule, but keys have replicas, which are refreshed, where some of them will go."""
    drawn, rng = draw_keys(seed), Random(seed)
    actions: list[Action] = []
    for action in drawn.actions:
        if isinstance(action, MoveKeys) and rng.random() < 0.6:
            there = action.site if rng.random() < 0.8 else rng.choice([*PARENT, "c"])
            actions.append(replace(action, strategy=REPLICA, site=there))
            action = replace(action, strategy=rng.choice(["hot-backup", "hot-backup", action.strategy]))
            actions += [RefreshReplicas() for _ in range(rng.randint(0, 3))]
        actions.append(action)
        actions += [RefreshReplicas()] if rng.random() < 0.2 else []
    return replace(drawn, actions=tuple(actions))


def draw_plans(seed: int, longest: int = 60) -> Schedule:
    """A random schedule that changes plans, by all strategies, among everything else that may happen."""
    rng = Random(seed)
    rule = rng.choice(["bottom-up", "top-down", "nearest-common-ancestor"])
    redeployment = rng.choice(["incremental"] * 4 + ["holistic-concurrent"])
    drawing = _PlanDrawing(rng)
    actions: list[Action] = [SubmitQuery("q0", rng.choice(list(CHAINS)), 0)]
    actions += [drawing.one() for _ in range(rng.randint(longest // 2, longest))]
    return Schedule(seed, rule, redeployment, tuple(actions))


def draw_shared_plans(seed: int) -> Schedule:
    """The same, with several queries that have joins in common; some of them are cut, and some leave."""
    drawn, rng = draw_plans(seed), Random(seed)
    kind, names = rng.choice(list(SHARED_CHAINS)), ["q0"]
    actions: list[Action] = [SubmitQuery("q0", kind, 0)]
    for action in drawn.actions[1:]:
        if isinstance(action, ChangePlan):
            strategy = rng.choice(["moving-state", "background"])
            action = replace(action, query=rng.choice(names), strategy=strategy, alone=rng.random() < 0.4)
        elif isinstance(action, FailAhead | Put):
            action = replace(action, query=rng.choice(names))
        actions.append(action)
        if len(names) < 4 and rng.random() < 0.15:
            names.append(f"q{len(names)}")
            actions.append(SubmitQuery(names[-1], kind, rng.choice([0, 0, 1]), rng.random() < 0.25))
        elif rng.random() < 0.02:
            actions.append(WithdrawQuery(rng.choice(names)))
    return replace(drawn, actions=tuple(actions), shares=True)


def draw_ahead(seed: int) -> Schedule:
    """The same as `draw_plans`, but states are made ahead, of the rows of regions that keep up with what is sent; now
    and then keys go elsewhere."""
    drawn, rng = draw_plans(seed), Random(seed)
    actions: list[Action] = []
    for action in drawn.actions:
        actions.append(replace(action, strategy="background") if isinstance(action, ChangePlan) else action)
        if rng.random() < 0.4:
            actions += [*(Tick(region, Sight()) for region in REGIONS), Deliver(9)]
        if rng.random() < 0.04:
            actions.append(MoveKeys("q0", (rng.randrange(2),), rng.choice([*PARENT, "c"]), AUTO))
    return replace(drawn, actions=tuple(actions))


def draw_divided_plans(seed: int) -> Schedule:
    """The same as `draw_plans`, with keys that migrate."""
    drawn, rng = draw_plans(seed), Random(seed)
    actions: list[Action] = []
    for action in drawn.actions:
        actions.append(action)
        if rng.random() < 0.12:
            keys: tuple[int, ...] | tuple[str, int, int] = (rng.randrange(2),)
            if rng.random() < 0.2:
                keys = ("buckets", 0, rng.randint(1, BUCKETS))
            strategy = rng.choice([AUTO, *KEY_STRATEGIES])
            actions.append(MoveKeys("q0", keys, rng.choice([*PARENT, "c"]), strategy))
    return replace(drawn, actions=tuple(actions))


class _Drawing:
    """Draws actions one by one; each device's time only goes on."""

    #: keys of readings are below
    keys = 2

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._now = dict.fromkeys(DEVICES, 20)
        self._queries = 2
        #: some schedules are calm, some wild
        self._trouble = rng.choice([0.0, 0.3, 1.0])

    def one(self) -> Action:
        draws = self._weights()
        return self._rng.choices(list(draws), list(draws.values()))[0]()

    def _weights(self) -> dict[Callable[[], Action], float]:
        return {
            self._send: 8.0,
            self._tick: 14.0,
            self._move: 4.0,
            self._deliver: 6.0,
            self._site: 1.5 * self._trouble,
            self._region: 1.5 * self._trouble,
            self._query: 0.5,
        }

    def _send(self) -> Action:
        device = self._rng.choice(DEVICES)
        stream = self._rng.choice([s for s, devices in FEEDS.items() if device in devices])
        readings = []
        for _ in range(self._rng.randint(1, 3)):
            self._now[device] += self._rng.randint(0, 5)
            at = self._now[device] - self._rng.randint(0, DISORDER)
            readings.append((at, self._rng.randint(0, self.keys - 1), self._rng.randint(0, 4)))
        return Send(device, stream, tuple(readings))

    def _tick(self) -> Action:
        peers = (self._rng.randint(0, 2), self._rng.randint(0, 2))
        sight = Sight(peers, self._rng.choice([0, 1, 2, 2]), self._rng.random() < 0.6)
        crash = self._rng.choice(MOMENTS) if self._rng.random() < 0.08 else ""
        return Tick(self._rng.choice(list(REGIONS)), sight, crash)

    def _move(self) -> Action:
        return Move(self._rng.choice(DEVICES), self._rng.choice([*LEAVES, *LEAVES, "ha", "hb", "c", None]))

    def _deliver(self) -> Action:
        return Deliver(self._rng.randint(1, 4), self._rng.random() < 0.2)

    def _site(self) -> Action:
        site = self._rng.choice(list(PARENT))
        choices: list[Action] = [
            Lose(site, True),
            Lose(site, False),
            Return(site),
            Return(site),
            Cut(site),
            Squeeze(site, self._rng.randint(0, 3)),
            Squeeze(site, 50),
        ]
        return self._rng.choice(choices)

    def _region(self) -> Action:
        region = self._rng.choice(list(REGIONS))
        choices: list[Action] = [Down(region), Up(region), Up(region), Timeout()]
        return self._rng.choice(choices)

    def _query(self) -> Action:
        if self._rng.random() < 0.6:
            self._queries += 1
            return SubmitQuery(f"q{self._queries}", self._rng.choice(list(KINDS)), self._rng.randint(0, 2))
        return WithdrawQuery(f"q{self._rng.randint(0, self._queries)}")


class _KeyDrawing(_Drawing):
    """The same, with more keys, which migrate."""

    keys = 4

    def _weights(self) -> dict[Callable[[], Action], float]:
        often = {self._migrate: 4.0, self._cancel: 0.5}
        return {**super()._weights(), self._move: 1.5, self._query: 0.1, **often}

    def _migrate(self) -> Action:
        keys: tuple[int, ...] | tuple[str, int, int]
        keys = tuple(sorted(self._rng.sample(range(self.keys), self._rng.randint(1, 2))))
        if self._rng.random() < 0.2:
            low, high = sorted(self._rng.sample(range(BUCKETS + 1), 2))
            keys = ("buckets", low, high)
        strategy = self._rng.choice([AUTO, *KEY_STRATEGIES])
        return MoveKeys(self._rng.choice(["q0", "q0", "q1"]), keys, self._rng.choice([*PARENT, "c"]), strategy)

    def _cancel(self) -> Action:
        return CancelKeys()


class _PlanDrawing(_Drawing):
    """The same, with one query whose plan changes."""

    def _weights(self) -> dict[Callable[[], Action], float]:
        often = {self._change: 2.0, self._advance: 6.0, self._fail_ahead: 0.5, self._put: 1.0}
        return {**super()._weights(), self._move: 2.0, self._query: 0.0, **often}

    def _change(self) -> Action:
        strategies = ("moving-state", "background", "parallel-track", "pause-drain-resume")
        orders = ("(a JOIN b) JOIN c", "a JOIN (b JOIN c)", "(a JOIN c) JOIN b")
        return ChangePlan("q0", self._rng.choice(orders), self._rng.choice(strategies))

    def _advance(self) -> Action:
        return AdvancePlans()

    def _fail_ahead(self) -> Action:
        return FailAhead("q0")

    def _put(self) -> Action:
        return Put("q0", self._rng.choice([3, 4, 5]), self._rng.choice([*PARENT, "c"]))
