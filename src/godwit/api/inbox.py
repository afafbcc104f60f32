"""The inbox: topology changes from other processes, as small JSON files in the fleet's folder.

    inbox/20261115T120000-000001-4711.json     {"changes": ["device t1 -> east"]}

A sender writes a draft and renames it, so a file is there wholly or not at all. The fleet takes files in the order of
their names and moves each to `inbox/taken` or, with the reason beside it, to `inbox/refused`.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from godwit.errors import ConfigError, GodwitError, TopologyError
from godwit.model.change_text import parse_changes

if TYPE_CHECKING:
    from godwit.api.fleet import Fleet

log = logging.getLogger(__name__)

#: how often a fleet looks into its inbox (seconds)
EVERY = 0.1
State = Literal["waiting", "taken", "refused"]


def send(root: Path, changes: Sequence[str]) -> Path:
    """Queue changes for the fleet in this folder; returns the file that stands for them."""
    if not (root / "control").is_dir():
        msg = f"{root} is not a fleet's folder; give the folder that the fleet was opened with"
        raise ConfigError(msg)
    parse_changes(changes)  # what cannot be read is refused here, where somebody sees it
    folder = root / "inbox"
    folder.mkdir(exist_ok=True)
    name = f"{time.time_ns():020d}-{os.getpid()}.json"
    draft = folder / f".{name}"
    draft.write_text(json.dumps({"changes": list(changes)}), encoding="utf-8")
    draft.rename(folder / name)
    return folder / name


def state_of(file: Path) -> tuple[State, str]:
    """What has become of queued changes, and why if they were refused."""
    refused = file.parent / "refused" / file.name
    if refused.exists():
        return "refused", refused.with_suffix(".reason").read_text(encoding="utf-8")
    return ("taken", "") if (file.parent / "taken" / file.name).exists() else ("waiting", "")


class Inbox:
    """Watches the inbox of a fleet while the fleet runs."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._folder: Path = fleet.root / "inbox"
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self._thread is None:
            self._stopping.clear()
            self._thread = threading.Thread(target=self._watch, name="inbox", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._thread = None

    def look(self) -> int:
        """Take whatever waits; how many files there were."""
        if not self._folder.is_dir():
            return 0
        waiting = sorted(p for p in self._folder.glob("*.json") if not p.name.startswith("."))
        for file in waiting:
            self._take(file)
        return len(waiting)

    def _watch(self) -> None:
        while not self._stopping.wait(EVERY):
            self.look()

    def _take(self, file: Path) -> None:
        try:
            self._fleet.change(parse_changes(_lines(file)))
        except Exception as fault:  # whatever it is: the next ones must be taken, and the sender must hear of it
            log.warning("changes in %s refused: %s", file.name, fault, exc_info=not isinstance(fault, GodwitError))
            self._move(file, "refused", str(fault) or repr(fault))
        else:
            self._move(file, "taken")

    def _move(self, file: Path, where: str, reason: str = "") -> None:
        target = self._folder / where
        target.mkdir(exist_ok=True)
        if reason:  # before the file itself: whoever sees the file finds the reason
            (target / file.with_suffix(".reason").name).write_text(reason, encoding="utf-8")
        file.rename(target / file.name)


def _lines(file: Path) -> list[str]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        lines = content["changes"]
    except (ValueError, KeyError, TypeError) as error:
        msg = f"{file.name} is not {{'changes': [...]}} ({error}); send changes with `godwit change`"
        raise TopologyError(msg) from error
    if not (isinstance(lines, list) and all(isinstance(line, str) for line in lines)):
        msg = f"{file.name}: changes must be a list of lines such as 'device t1 -> east'"
        raise TopologyError(msg)
    return lines
