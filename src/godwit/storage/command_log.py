"""The command log: commands of any process, in one order, each with a document beside it that holds the answer.

commands/0000000012.json      written by whoever asks; the number that is free decides the order
answers/0000000012.json       written by the one consumer
"""

from __future__ import annotations

import time
from dataclasses import asdict

from godwit.control.commands import Answer, Command, from_json, to_json
from godwit.errors import ConfigError
from godwit.storage import names
from godwit.storage.store import Store

#: lower bound of answered commands that are kept for readers of their answers; how many are removed together
KEEP, SLICE = 200, 50
#: how often a process that waits for an answer looks (seconds)
LOOK_EVERY = 0.01


class CommandLog:
    """Written by many processes, consumed by one."""

    def __init__(self, store: Store, *, must_exist: bool = False) -> None:
        if must_exist and not store.disk.exists(names.CONTROL):
            msg = f"{store.where('')} is not a fleet's folder; give the folder that the fleet was opened with"
            raise ConfigError(msg)
        self._store, self._log = store, store.log(names.COMMANDS, create=True)

    def append(self, command: Command) -> int:
        """Write a command under the next free number."""
        record = to_json(command)
        while not self._store.try_append(names.COMMANDS, number := self._log.end() + 1, record):
            pass  # another process was faster
        return number

    def read(self, number: int) -> Command | None:
        if not self._log.exists(number):
            return None
        record = self._log.read(number)
        return None if record is None else from_json(record)

    def exists(self, number: int) -> bool:
        return self._store.has_record(names.COMMANDS, number)

    @property
    def first(self) -> int:
        return self._log.first

    @property
    def last(self) -> int:
        return self._log.end()

    def answer(self, number: int, answer: Answer) -> None:
        self._store.put_document(_answer(number), asdict(answer))
        if number % SLICE == 0:
            self._forget(number - KEEP)

    def answer_of(self, number: int) -> Answer | None:
        found = self._store.get_document(_answer(number))
        return None if found is None else Answer(**found)

    def await_answer(self, number: int, seconds: float) -> Answer | None:
        """For other processes; None: there was none in time."""
        until = time.monotonic() + seconds
        while (found := self.answer_of(number)) is None and time.monotonic() < until:
            time.sleep(LOOK_EVERY)
        return found

    def _forget(self, through: int) -> None:
        self._log.end()
        for number in self._log.drop(through):
            self._store.delete_document(_answer(number))


def _answer(number: int) -> str:
    return f"{names.ANSWERS}/{names.number(number)}"
