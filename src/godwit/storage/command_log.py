"""The command log: commands of any process, in one order, each with a file beside it that holds the answer.

commands/0000000012.json      written by whoever asks; the number that is free decides the order
answers/0000000012.json       written by the one consumer
"""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import asdict
from pathlib import Path

from godwit.control.commands import Answer, Command, from_json, to_json
from godwit.errors import ConfigError
from godwit.storage.log import Log

#: so many answered commands are kept at least, for whoever still wants to read an answer
KEEP = 1000
#: how often a process that waits for an answer looks (seconds)
LOOK_EVERY = 0.01


class CommandLog:
    """Written by many processes, consumed by one."""

    def __init__(self, root: Path, *, must_exist: bool = False) -> None:
        if must_exist and not (root / "control").is_dir():
            msg = f"{root} is not a fleet's folder; give the folder that the fleet was opened with"
            raise ConfigError(msg)
        self._log = Log(root / "commands")
        self._answers = root / "answers"
        self._answers.mkdir(parents=True, exist_ok=True)

    def append(self, command: Command) -> int:
        """Write a command under the next free number."""
        text = json.dumps(to_json(command), separators=(",", ":"))
        draft = self._log.folder / f"{os.getpid()}-{threading.get_ident()}.tmp"
        draft.write_text(text)
        try:
            while True:
                number = self._log.end() + 1
                try:
                    os.link(draft, self._path(number))
                except FileExistsError:
                    continue  # another process was faster
                return number
        finally:
            draft.unlink()

    def read(self, number: int) -> Command | None:
        if not self._log.exists(number):
            return None
        record = self._log.read(number)
        return None if record is None else from_json(record)

    def exists(self, number: int) -> bool:
        return os.path.exists(self._path(number))

    @property
    def first(self) -> int:
        return self._log.first

    @property
    def last(self) -> int:
        return self._log.end()

    def answer(self, number: int, answer: Answer) -> None:
        path = self._answers / f"{number:010d}.json"
        draft = path.with_suffix(".tmp")
        draft.write_text(json.dumps(asdict(answer)))
        draft.rename(path)
        if number % KEEP == 0:
            self._forget(number - KEEP)

    def answer_of(self, number: int) -> Answer | None:
        path = self._answers / f"{number:010d}.json"
        return Answer(**json.loads(path.read_text())) if path.exists() else None

    def await_answer(self, number: int, seconds: float) -> Answer | None:
        """For other processes; None: there was none in time."""
        until = time.monotonic() + seconds
        while (found := self.answer_of(number)) is None and time.monotonic() < until:
            time.sleep(LOOK_EVERY)
        return found

    def _forget(self, through: int) -> None:
        first = self._log.first
        self._log.end()
        for number in self._log.drop(through):
            (self._answers / f"{number:010d}.json").unlink(missing_ok=True)
        assert self._log.first >= first

    def _path(self, number: int) -> str:
        return f"{self._log.folder}/{number:010d}.json"
