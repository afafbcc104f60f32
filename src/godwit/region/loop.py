"""One thread per region steps all its shapes: woken by news of a log, in turn, and only what has work.

    news      whoever appends to a log in this process says which; a slow look finds records of other processes
    epoch     all shapes adopt it in one pass, before anything else is read: the region acknowledges it after the pass
    timers    idle sources, deadlines of operators: one queue of times; an idle region sleeps
    hurry     shapes that answer at once go first, also before those of other regions in this process
    gather    rows that nobody waits for are left until there are some, unless somebody waits for everything (`press`)
    beside    a large micro-batch, and the first ones of a new shape (Spark compiles their plans), run on a thread of
              their own, by Spark's scheduler; meanwhile the loop passes over that shape and steps the others

An error ends the runner that raised it, with its reason kept, and no other.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from godwit.engine.threads import region_thread
from godwit.errors import StoreAwayError
from godwit.ids import RegionId
from godwit.region.runner import Runner, TooLargeError
from godwit.region.schedule import Hurry, StepSchedule
from godwit.storage.log import Record

log = logging.getLogger(__name__)

#: how often a region looks for records that nobody has announced (seconds), and at how many of its shapes each time
LOOK_EVERY, LOOK_AT = 1.0, 8
#: how often a shape is looked at while state is on its way to it, or while others must catch up with it
LOOK_AGAIN = 0.01
#: how long it gives way to other regions before it looks again
GIVE_WAY = 0.002
#: how many micro-batches of a region may run beside its loop at a time
BESIDE = 4


@dataclass
class Member:
    """A shape that the loop runs."""

    name: str
    build: Callable[[], Runner]
    runner: Runner | None = None
    #: its next micro-batch runs beside the loop: it is new, or the last one had plans to compile
    cold: bool = True
    #: the error that ended the runner, if one did
    failure: BaseException | None = None


def passes(failure: BaseException) -> bool:
    """Whether what has ended a runner is the store's, and goes by itself (room on the disk, a server that is back)."""
    return isinstance(failure, OSError | StoreAwayError)


class RegionLoop:
    """Drives the runners of one region until stopped."""

    def __init__(
        self, region: RegionId, stepped: Callable[[Runner], None], hurry: Hurry[RegionId] | None = None
    ) -> None:
        self._region, self._stepped, self._hurry = region, stepped, hurry or Hurry()
        self._members: dict[str, Member] = {}
        self._schedule: StepSchedule[str] = StepSchedule()
        #: guards the two above; never held while a runner is built or stepped
        self._news = threading.Condition()
        self._epoch = False
        #: until when somebody waits for everything to be answered
        self._pressed_until = 0.0
        self._beside = threading.BoundedSemaphore(BESIDE)
        self._threads: set[threading.Thread] = set()
        self._stopping = False
        #: the shape that the loop itself is busy with
        self._current: str | None = None
        self._looked_at = 0
        self._next_look = time.monotonic() + LOOK_EVERY
        self._thread = region_thread(self._run, f"{region}/loop", region)

    # --- from any thread

    def start(self) -> None:
        self._thread.start()

    def add(self, shape: str, name: str, build: Callable[[], Runner]) -> None:
        """Build a runner beside the loop; it joins when it stands."""
        member = Member(name, build)
        with self._news:
            self._members[shape] = member
        self._aside(shape, member, lambda: self._join(shape, member))

    def remove(self, shape: str) -> None:
        """Run it no more; returns when its micro-batch, should one be under way, has ended."""
        with self._news:
            self._members.pop(shape, None)
            self._news.wait_for(lambda: self._stopping or shape not in {*self._schedule.away, self._current})
            self._schedule.remove(shape)

    def __contains__(self, shape: str) -> bool:
        return shape in self._members

    def wake(self, shapes: Iterable[str] | None = None) -> None:
        """There is news in a log of these shapes; None: of all, an epoch perhaps."""
        with self._news:
            self._epoch, now = self._epoch or shapes is None, time.time()
            for shape in self._members if shapes is None else shapes:
                self._schedule.news(shape, now)
            if self._schedule.hurries():
                self._hurry.say(self._region, True)
            self._news.notify_all()

    def press(self, until: float) -> None:
        """Until when somebody waits for everything that is there: nothing gathers then."""
        began = self._pressed_until <= time.time() < until
        self._pressed_until = until
        if began:
            self.wake(list(self._members))

    def stop(self, wait: bool = True) -> None:
        """End after the micro-batches that are under way."""
        with self._news:
            self._stopping = True
            self._news.notify_all()
            threads = [self._thread, *self._threads]
        for thread in threads if wait else []:
            if thread is not threading.current_thread():
                thread.join()

    def revive(self) -> None:
        """Build runners again that the store has ended (a full disk, a broker that was away): they stand where their
        last commit stands."""
        with self._news:
            broken = [(shape, m) for shape, m in self._members.items() if m.failure and passes(m.failure)]
        for shape, member in broken:
            log.warning("%s is tried again", member.name)
            self.add(shape, member.name, member.build)

    def failures(self) -> dict[str, BaseException]:
        return {m.name: m.failure for m in list(self._members.values()) if m.failure is not None}

    # --- the loop

    def _run(self) -> None:
        while True:
            with self._news:
                if self._stopping:
                    self._hurry.say(self._region, False)
                    return
                everybody, self._epoch = self._epoch, False
                shape = None if everybody else self._schedule.take(time.time(), self._hurry.elsewhere(self._region))
                self._hurry.say(self._region, self._schedule.hurries(shape))
                if shape is None and not everybody:
                    self._sleep()
            if everybody:
                self._adopt()
            elif shape is not None:
                self._turn(shape)

    def _sleep(self) -> None:
        """Until there is news, a timer goes off, or it is time for a slow look."""
        left = self._next_look - time.monotonic()
        if left <= 0:
            self._look()
            return
        due = self._schedule.until()
        left = min(left, GIVE_WAY) if self._schedule.waits else left
        self._news.wait(left if due is None else max(min(left, due - time.time()), 0.0))

    def _look(self) -> None:
        """At some of the shapes in turn: what it costs does not grow with their number."""
        self._next_look = time.monotonic() + LOOK_EVERY
        there = [shape for shape in self._members if shape in self._schedule]
        for k in range(min(LOOK_AT, len(there))):
            shape = there[(self._looked_at + k) % len(there)]
            self._schedule.news(shape)
        self._looked_at += LOOK_AT

    def _adopt(self) -> None:
        """An epoch has been published: all shapes look at it, one after the other, before more rows are read."""
        with self._news:
            # (one that runs beside the loop, or is to, finds the epoch by itself)
            here = [
                (shape, member)
                for shape, member in self._members.items()
                if shape in self._schedule and not member.cold and shape not in self._schedule.away
            ]
        for shape, member in here:
            self._guarded(shape, member, partial(self._adopt_one, shape))

    def _adopt_one(self, shape: str, runner: Runner) -> None:
        try:
            record = self._step(runner, sources=False, most=runner.limits.sizes.beside_rows)
        except TooLargeError:
            return  # it has news, and its turn comes
        self._rest(shape, runner, record)

    def _turn(self, shape: str) -> None:
        member = self._members.get(shape)
        if member is not None and member.runner is not None:
            self._guarded(shape, member, lambda runner: self._step_here(shape, member, runner))

    def _step_here(self, shape: str, member: Member, runner: Runner) -> None:
        if not runner.waiting():
            self._rest(shape, runner, None, idle=True)
            return
        now = time.time()
        many = len(self._members) >= runner.limits.patience.shapes
        gathers = many and not member.cold and now >= self._pressed_until
        if gathers and (until := runner.gathers_until(now)) is not None:
            self._rest(shape, runner, None, idle=True, until=until)
            return
        if member.cold or runner.large:
            self._aside(shape, member, lambda: self._step_alone(shape, member))
            return
        try:
            record = self._step(runner, most=runner.limits.sizes.beside_rows)
        except TooLargeError:
            self._aside(shape, member, lambda: self._step_alone(shape, member))
            return
        member.cold = runner.compiled
        self._rest(shape, runner, record)

    def _step(self, runner: Runner, sources: bool = True, most: int | None = None) -> Record | None:
        record = runner.step(sources, most)
        self._stepped(runner)
        return record

    def _rest(
        self, shape: str, runner: Runner, record: Record | None, idle: bool = False, until: float | None = None
    ) -> None:
        """When to look at a shape again, if nobody announces anything. `until`: what there is gathers so long."""
        again = min((at for at in (runner.next_due(), until) if at is not None), default=None)
        if (runner.held_back and not idle) or runner.memory.underway or runner.making:
            again = min(again or float("inf"), time.time() + LOOK_AGAIN)
        more = record is not None and runner.more and runner.waiting()  # (what has come since was announced)
        with self._news:
            self._schedule.due(shape, again)
            if more:
                self._schedule.news(shape, time.time())

    # --- beside the loop

    def _aside(self, shape: str, member: Member, act: Callable[[], None]) -> None:
        """Do something with one shape on a thread of its own; until then the loop passes over it."""

        def work() -> None:
            with self._beside:
                if not self._stopping:
                    self._guarded(shape, member, lambda _: act())
            with self._news:
                self._schedule.back(shape)
                self._threads.discard(threading.current_thread())
                self._news.notify_all()

        thread = region_thread(work, f"{member.name} beside", self._region)
        with self._news:
            self._schedule.leave(shape)
            self._threads.add(thread)
        thread.start()

    def _join(self, shape: str, member: Member) -> None:
        member.runner = member.build()
        self._stepped(member.runner)
        with self._news:
            if self._members.get(shape) is member:
                self._schedule.add(shape, prompt=not member.runner.shape.plan.stateful)

    def _step_alone(self, shape: str, member: Member) -> None:
        runner = member.runner
        assert runner is not None
        record = self._step(runner)
        if record is not None and record["metrics"]["rows_in"]:
            member.cold = runner.compiled
        self._rest(shape, runner, record)

    def _guarded(self, shape: str, member: Member, act: Callable[[Runner], None]) -> None:
        mine = threading.current_thread() is self._thread
        try:
            if mine:
                self._current = shape
            act(member.runner)  # type: ignore[arg-type]
        except BaseException as error:
            if self._stopping:
                return
            member.failure = error
            log.exception("%s stopped: the micro-batch failed and was rolled back", member.name)
            with self._news:
                self._schedule.remove(shape)
        finally:
            if mine:
                with self._news:
                    self._current = None
                    self._news.notify_all()
