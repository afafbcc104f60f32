"""The control loop: the one consumer of commands and of what regions report. It lets the coordinator decide, and acts.

While the fleet runs, it is a thread. While it does not, a caller with a command drives it and steps the runners
(without reading sources) until an epoch that must be in force is: so the same coordinator runs in both cases.

Changes of the topology are handed over as they come, also in the middle of a reconfiguration, which they may spoil;
and so are migrations of keys, whose phases queue for the next epoch and share it. Every other command waits until the
epoch before it is acknowledged.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from godwit.api.executor import Executor
from godwit.api.options import check_changes
from godwit.api.own_commands import OwnCommands, Waiter
from godwit.control.commands import Answer, ChangeTopology, Command, MigrateKeys
from godwit.control.events import ChangesArrived, Event, KeysDue, ReplicasDue, Request, TimedOut
from godwit.errors import DeploymentError, GodwitError
from godwit.ids import QueryId
from godwit.migration.hot_backup import REFRESH_MS
from godwit.region.pool import RunnerPool
from godwit.storage.command_log import CommandLog

log = logging.getLogger(__name__)

#: how often the loop looks for commands of other processes, and for regions that are silent (seconds)
LOOK_EVERY = 0.25
#: seconds between two checks whether all regions work under the newest epoch
REST_EVERY = 0.002
#: how often it looks whether migrations that are held may begin (seconds)
HELD_EVERY = 0.005
#: commands that need not wait for the epoch before them
TAKEN_AT_ONCE = (ChangeTopology, MigrateKeys)
#: how long the caller of one of these waits until it is published: an epoch before it may still be under way
PUBLISHED_WITHIN = 0.015


class _Stopped(BaseException):
    """The loop was stopped while it waited for regions."""


class ControlLoop:
    def __init__(
        self,
        executor: Executor,
        commands: CommandLog,
        carry_out: Callable[[Command, bool], None],
        pool: RunnerPool,
        events: deque[Event],
        news: threading.Condition,
        ack_timeout: float,
    ) -> None:
        self._executor, self._commands, self._carry_out, self._pool = executor, commands, carry_out, pool
        self._events, self._news, self.ack_timeout = events, news, ack_timeout
        self._driving = threading.RLock()
        self._driver: int | None = None
        self._next = commands.first
        self._own = OwnCommands(commands)
        #: up to which command an epoch named them when the fleet was opened, and up to which there were any
        self._covered, self._old = 0, 0
        #: a thread of this process has written a command since the last turn
        self._asked = False
        #: taken in, and to be answered once they are published
        self._open: list[int] = []
        #: whether migrations of an operator's keys that are held may begin
        self.may_begin: Callable[[tuple[QueryId, int]], bool] = lambda place: True
        #: when replicas were last refreshed (monotonic seconds)
        self._refreshed = 0.0
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        #: what ended the loop, if something did
        self.failure: BaseException | None = None

    # -- from any thread

    def execute(self, command: Command) -> int:
        """Write a command down, and have it carried out; its number. Raises what is wrong with it."""
        if self._driver == threading.get_ident():
            self._carry_out(command, False)  # part of a command that is being carried out
            return self.command
        number, waiter = self._own.write(command)
        with self._news:
            self._asked = True
            self._news.notify_all()
        if waiter is not None:
            waiter.taken.wait()
            waiter.answered.wait(PUBLISHED_WITHIN if isinstance(command, TAKEN_AT_ONCE) else None)
        if waiter is None or waiter.left:
            waiter = self._own.wait_for(number)
            self._drive(waiter)
        self._own.forget(number)
        if waiter.error is not None:
            raise waiter.error
        return number

    def post(self, command: Command) -> int:
        """Write a command down and return its number at once; its answer is found by `answer_of`."""
        with self._news:
            number = self._commands.append(command)
            self._asked = True
            self._news.notify_all()
        return number

    def look(self) -> None:
        """Another process says that it has written a command."""
        with self._news:
            self._asked = True
            self._news.notify_all()

    def answer_of(self, number: int) -> Answer | None:
        """What has become of a command; None: it is not carried out yet, or was long ago."""
        return self._commands.answer_of(number)

    def known(self, number: int) -> bool:
        """Whether there is, or was, a command of that number."""
        return 0 < number <= self._commands.last

    @property
    def last(self) -> int:
        """The number of the newest command."""
        return self._commands.last

    def waiting(self) -> tuple[int, ...]:
        """Commands that are not answered yet."""
        return (*self._open, *range(self._next, self._commands.last + 1))

    @contextmanager
    def driving(self) -> Iterator[None]:
        """Decide something here, and no other thread meanwhile. Runners and sources never wait for it."""
        with self._driving:
            before, self._driver = self._driver, threading.get_ident()
            try:
                yield
            finally:
                self._driver = before

    def _drive(self, waiter: Waiter) -> None:
        """The fleet does not run: work here until the command is answered."""
        with self.driving():
            while not waiter.answered.is_set():
                self._turn()
                if not waiter.answered.is_set():
                    self._await(lambda: not self._executor.plane.coordinator.unpublished)
                    self._answer()

    # -- inside a command

    def ask(self, event: Event, *more: Request) -> None:
        """Let the coordinator decide, once the epoch before is in force; returns when all of it is published."""
        plane = self._executor.plane
        with self.driving():
            self._await(lambda: plane.idle)
            self._executor.handle(event, *more)
            self._await(lambda: not plane.coordinator.unpublished)

    def ask_beside(self, event: Event) -> None:
        """Let the coordinator decide at once: what follows shares the next epoch, if one is under way."""
        with self.driving():
            self._executor.handle(event)

    def _await(self, holds: Callable[[], bool]) -> None:
        while not holds():
            if self._take_events():
                continue
            if self._pool.running:
                if self._stopping.is_set() and self._thread is threading.current_thread():
                    raise _Stopped
                self._time_out()
                with self._news:
                    self._news.wait_for(lambda: bool(self._events) or self._stopping.is_set(), self._until_late())
            elif not self._step():
                self._executor.handle(TimedOut(self._executor.plane.epoch))

    def _step(self) -> bool:
        """Let the runners look at the control log; whether a region has reported something."""
        self._pool.hire()
        while self._pool.step_all(sources=False) and not self._events:
            pass  # rows up to a plan version's line come before its epoch
        return bool(self._events)

    # -- one turn

    def turn(self) -> None:
        """Take in whatever is there, without waiting for regions (unless a command needs them)."""
        with self.driving():
            self._turn()

    @property
    def command(self) -> int:
        """The number of the command that is being carried out."""
        return self._executor.command

    @property
    def quiet(self) -> bool:
        """Whether no command and no epoch is under way, and no migration is held."""
        plane = self._executor.plane
        return (
            plane.idle
            and not plane.keys.held
            and not self._events
            and not self._open
            and not self._commands.exists(self._next)
        )

    def _turn(self) -> None:
        self._asked = False
        self._executor.retry()
        self._take_events()
        self._time_out()
        self._refresh()
        self._release()
        while (command := self._read_next()) is not None:
            self._take_events()  # an acknowledgement that has come since lets this one be published at once
            if not isinstance(command, TAKEN_AT_ONCE) and not self._executor.plane.idle:
                if self._pool.running:
                    break
                self._await(lambda: self._executor.plane.idle)
                self._answer()
            self._take(self._next, command)
            self._answer()
            for number in self._open:
                self._own.taken(number)
            self._executor.notify()
        self._answer()

    def _read_next(self) -> Command | None:
        """The next command, if there is one."""
        if (mine := self._own.unread(self._next)) is not None:
            return mine
        while self._commands.exists(self._next):
            command = self._commands.read(self._next)
            if command is not None:
                return command
            self._next = max(self._next + 1, self._commands.first)
        return None

    def _take_events(self) -> bool:
        busy = False
        while self._events:
            self._executor.handle(self._events.popleft())
            busy = True
        return busy

    def _time_out(self) -> None:
        executor = self._executor
        if not self._pool.running or executor.plane.idle:
            return
        if time.monotonic() > executor.published_at + self.ack_timeout:
            log.warning(
                "not all regions have acknowledged epoch %s within %g s", executor.plane.epoch, self.ack_timeout
            )
            executor.published_at = time.monotonic()
            executor.handle(TimedOut(executor.plane.epoch))

    def _release(self) -> None:
        """Migrations of keys that were held begin when it is time."""
        for query, operator in self._executor.plane.keys.held:
            if self.may_begin((query, operator)):
                self._executor.handle(KeysDue(query, operator))

    def _refresh(self) -> None:
        """Replicas of keys are sent what has changed, all of them with one epoch."""
        now = time.monotonic()
        if self._pool.running and self._executor.plane.keys.replicas and now >= self._refreshed + REFRESH_MS / 1000:
            self._refreshed = now
            self._executor.handle(ReplicasDue())

    def _until_late(self) -> float:
        """Seconds until the next look: at the command log, and whether a region is silent for too long."""
        if self._executor.plane.keys.held:
            return HELD_EVERY
        if self._executor.plane.idle:
            return LOOK_EVERY
        return min(max(self._executor.published_at + self.ack_timeout - time.monotonic(), 0.001), LOOK_EVERY)

    def _take(self, number: int, command: Command) -> None:
        again = number <= self._old  # an earlier process may have carried it out, wholly or in part
        if again and self._commands.answer_of(number) is not None:
            self._next = number + 1
            return
        self._executor.command = max(self._executor.command, number)
        self._next = number + 1
        self._own.read(number)
        try:
            if not isinstance(command, ChangeTopology):
                self._carry_out(command, again)
            elif number > self._covered:  # otherwise its changes are in an epoch, or wait for one
                check_changes(command.changes)
                self._executor.handle(ChangesArrived(command.changes), notify=False)
        except GodwitError as error:
            self._refuse(number, error)
        except Exception as error:
            log.exception("command %s failed", number)
            self._refuse(number, error)
        except BaseException:
            # Stopped, or dying: the next driver, or the next process that opens the fleet, continues from here.
            self._next, self._old = number, max(self._old, number)
            raise
        else:
            self._open.append(number)

    def _refuse(self, number: int, error: Exception) -> None:
        self._commands.answer(number, Answer(None, type(error).__name__, str(error)))
        self._own.answered(number, error)

    def _answer(self) -> None:
        """Commands whose epochs are all published are answered."""
        if not self._open or self._executor.plane.coordinator.unpublished:
            return
        numbers, self._open = self._open, []
        for number in numbers:
            self._own.answered(number)  # before the answer is written: that is for others
        for number in numbers:
            self._commands.answer(number, Answer(int(self._executor.plane.epoch)))

    def rest(self) -> None:
        """Wait until all that was asked for is in force in all regions (that answer); or until the fleet is stopped."""
        while not self.quiet and self.running:
            time.sleep(REST_EVERY)

    # -- running

    def recover(self, covered: int, at_once: bool = True) -> None:
        """Carry out what was asked for and not answered (not `at_once`: when the loop is started); `covered`: the last
        command that an epoch names."""
        self._covered = self._executor.command = covered
        self._old = self._commands.last
        if at_once:
            self.turn()

    @property
    def running(self) -> bool:
        return self._own.serving

    def start(self) -> None:
        if self._thread is None:
            self._stopping.clear()
            self._own.serving = True
            self._thread = threading.Thread(target=self._run, name="godwit-control", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        with self._news:
            self._news.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._thread = None

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                with self.driving():
                    self._turn()
                with self._news:
                    self._news.wait_for(self._has_news, self._until_late())
        except _Stopped:
            return
        except BaseException as error:
            self.failure = error
            log.exception("the control loop has stopped: nothing is lost, but nothing changes until it is opened again")
        finally:
            self._own.end()

    def _has_news(self) -> bool:
        return bool(self._events) or self._asked or self._stopping.is_set()


def check(loop: ControlLoop) -> None:
    """Raise what has ended the loop."""
    if loop.failure is not None:
        msg = f"the control loop has stopped: {loop.failure}. Nothing is lost: fix the cause, then reopen the fleet"
        raise DeploymentError(msg) from loop.failure
