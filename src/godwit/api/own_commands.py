"""Commands that this process has written: they need not be read again, and a caller waits for each answer."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from godwit.control.commands import Command
from godwit.storage.command_log import CommandLog


@dataclass
class Waiter:
    """A thread of this process waits for the answer to a command."""

    taken: threading.Event = field(default_factory=threading.Event)
    answered: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None
    #: the loop has ended before it could answer
    left: bool = False

    def answer(self, error: BaseException | None = None) -> None:
        self.error = error
        self.answered.set()
        self.taken.set()  # last: a thread that waits for both wakes up once


class OwnCommands:
    """Writes commands, and knows who waits for them while a loop serves."""

    def __init__(self, log: CommandLog) -> None:
        self._log = log
        #: held while a command is written, until its waiter is known
        self._lock = threading.Lock()
        self._unread: dict[int, Command] = {}
        self._waiters: dict[int, Waiter] = {}
        #: a loop runs, and answers what is written until it says that it has ended
        self.serving = False

    def write(self, command: Command) -> tuple[int, Waiter | None]:
        """Its number, and what to wait for; None: no loop serves."""
        with self._lock:
            number = self._log.append(command)
            self._unread[number] = command
            if not self.serving:
                return number, None
            return number, self._waiters.setdefault(number, Waiter())

    def wait_for(self, number: int) -> Waiter:
        """The thread that drives the loop waits, too."""
        return self._waiters.setdefault(number, Waiter())

    def unread(self, number: int) -> Command | None:
        """A command of this process, if it is one."""
        with self._lock:  # a command that is being written must be answered
            return self._unread.get(number)

    def taken(self, number: int) -> None:
        if (waiter := self._waiters.get(number)) is not None:
            waiter.taken.set()

    def read(self, number: int) -> None:
        self._unread.pop(number, None)

    def answered(self, number: int, error: BaseException | None = None) -> None:
        if (waiter := self._waiters.get(number)) is not None:
            waiter.answer(error)

    def forget(self, number: int) -> None:
        """No thread waits any longer."""
        self._waiters.pop(number, None)

    def end(self) -> None:
        """The loop has ended: waiting threads must drive it themselves."""
        with self._lock:
            self.serving = False
            waiting, self._waiters = self._waiters, {}
        for waiter in waiting.values():
            waiter.left = not waiter.answered.is_set()
            waiter.answer(waiter.error)
