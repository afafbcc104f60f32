"""Plan nodes of joins that also answer for rows without a partner: outer, semi and anti joins within a band."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from godwit.model.plan import Column, Join, Operator, StateSpec, pretty, seconds

How = Literal["left", "right", "full", "semi", "anti"]


@dataclass(frozen=True)
class OuterJoin(Operator):
    """A band join in which rows without a partner count.

    left, right, full: all pairs, and the rows of that side (of both) that have none, with NULL for the other's columns.
    semi: the rows of the left that have a partner, once; anti: those that have none. A pair, or a first partner, is
    known when its later row comes; that there is none, when the watermark has passed the last moment at which one could
    come. So nothing need be remembered of a row but the row.
    """

    inputs: tuple[int, ...]
    how: How
    keys: tuple[tuple[str, str], ...]
    left_time: str
    right_time: str
    lower_us: int
    upper_us: int
    #: the columns of each side, with their types: what is missing is NULL of that type
    left: tuple[Column, ...]
    right: tuple[Column, ...]
    residual: str | None = None
    left_lag_us: int = 0
    right_lag_us: int = 0
    per_device: ClassVar[bool] = False
    stateful: ClassVar[bool] = True
    selectivity: ClassVar[float] = 0.5
    # Absence is reported behind the watermark, which is held until the state of an instance that moved has come.
    late_state: ClassVar[Literal["merge", "dual", "wait"]] = "merge"
    emits: ClassVar[Literal["arrival", "watermark"]] = "watermark"
    answered_stay: ClassVar[bool] = True

    @property
    def inner(self) -> Join:
        """The same keys and band, pairs only."""
        band = (self.left_time, self.right_time, self.lower_us, self.upper_us)
        return Join(self.inputs, self.keys, *band, self.residual, self.left_lag_us, self.right_lag_us)

    @property
    def told_apart(self) -> Literal["rows", "partials"] | None:
        """Whether a row has a partner depends on when its reader began: it is asked for each of them."""
        return "partials"

    @property
    def columns(self) -> tuple[Column, ...]:
        """Of what comes out."""
        return self.left if self.how in ("semi", "anti") else (*self.left, *self.right)

    @property
    def answers_for(self) -> tuple[int, ...]:
        """The sides whose rows come out though they have no partner."""
        return {"left": (0,), "anti": (0,), "right": (1,), "full": (0, 1), "semi": ()}[self.how]

    @property
    def waits_us(self) -> tuple[int, int]:
        """When the watermark is further past a row than this, no partner of it can come."""
        left, right = self.inner.lasts_us
        return max(self.left_lag_us, left), max(self.right_lag_us, right)

    @property
    def lasts_us(self) -> tuple[int, int]:
        """For how long after its own time a row is kept: until it is answered, and as long as a row of the other side
        is not, whose partner it may be."""
        left, right = self.inner.lasts_us
        wait_left, wait_right = self.waits_us
        if 0 in self.answers_for or self.how == "semi":
            left, right = max(left, wait_left), max(right, wait_left - self.lower_us)
        if 1 in self.answers_for:
            left, right = max(left, wait_right + self.upper_us), max(right, wait_right)
        return left, right

    @property
    def state(self) -> tuple[StateSpec, ...]:
        return self.inner.state

    @property
    def reach_us(self) -> int | None:
        return max(self.lasts_us) + 1

    @property
    def keeps(self) -> str:
        left, right = map(seconds, self.lasts_us)
        return f"rows of the left until the watermark is {left} past them, rows of the right {right}"

    @property
    def detail(self) -> str:
        unmatched = [f"rows of the {('left', 'right')[side]} without a partner" for side in self.answers_for]
        waits = [f"{seconds(self.waits_us[side])}" for side in self.answers_for]
        absence = " and ".join(f"{what} {wait} late" for what, wait in zip(unmatched, waits, strict=True))
        return f" ({absence}){self.inner.detail}" if absence else self.inner.detail

    def describe(self) -> str:
        return pretty(f"{self.how.capitalize()} {self.inner.describe().lower()[:4]}{self.inner.describe()[4:]}")


@dataclass(frozen=True)
class AsofJoin(Operator):
    """With each row of the left the newest row of the right, of equal keys, that is not newer than it.

    Rows of the left wait until the watermark has passed them. Of the right the newest row of each key is kept, and
    those that the watermark has not passed: rows of a stream, or the versions of a reference table's rows.
    """

    inputs: tuple[int, ...]
    #: column of the left, column of the right
    keys: tuple[tuple[str, str], ...]
    left_time: str
    right_time: str
    #: columns of the right that order rows of one time; the last is taken
    ties: tuple[str, ...]
    left: tuple[Column, ...]
    right: tuple[Column, ...]
    #: rows of the left without a partner come out, too
    outer: bool = False
    #: the partner must be older, not of the same time
    strict: bool = False
    #: column of the right that says: there is no such row any more
    deleted: str | None = None
    #: further condition on the pair
    residual: str | None = None
    #: a partner is at most so much older; 0: however old
    keep_us: int = 0
    left_lag_us: int = 0
    right_lag_us: int = 0
    per_device: ClassVar[bool] = False
    stateful: ClassVar[bool] = True
    needs_order: ClassVar[bool] = True
    late_state: ClassVar[Literal["merge", "dual", "wait"]] = "merge"
    emits: ClassVar[Literal["arrival", "watermark"]] = "watermark"
    answered_stay: ClassVar[bool] = True

    @property
    def told_apart(self) -> Literal["rows", "partials"] | None:
        return None

    @property
    def wait_us(self) -> int:
        """When the watermark is further past a row of the left than this, its partner is there."""
        return max(self.left_lag_us, self.right_lag_us)

    @property
    def waits_us(self) -> tuple[int, int]:
        return self.wait_us, self.wait_us

    @property
    def state(self) -> tuple[StateSpec, ...]:
        left, right = (tuple(f"`{pair[side]}`" for pair in self.keys) for side in (0, 1))
        waiting = StateSpec(left, self.left_time, self.left_lag_us)
        if self.keep_us:
            return waiting, StateSpec(right, self.right_time, self.right_lag_us, "ttl", self.keep_us)
        return waiting, StateSpec(right, self.right_time, self.right_lag_us, "forever")

    @property
    def reach_us(self) -> int | None:
        return self.keep_us + 2 * self.wait_us + 1 if self.keep_us else None

    @property
    def keeps(self) -> str:
        until = f"until the watermark is {seconds(self.keep_us + self.wait_us)} past it" if self.keep_us else "for ever"
        what = "the newest version of each key" if self.deleted else "the newest row of the right of each key"
        return f"rows of the left until the watermark passes them, {what} {until}"

    @property
    def detail(self) -> str:
        return f" ({seconds(self.wait_us)} late)" if self.wait_us else ""

    def describe(self) -> str:
        on = " AND ".join(f"{left} = {right}" for left, right in self.keys)
        match = f"{self.left_time} {'>' if self.strict else '>='} {self.right_time}"
        rest = f" AND {self.residual}" if self.residual else ""
        return pretty(f"{'Left asof' if self.outer else 'Asof'} join {on}, newest with {match}{rest}")
