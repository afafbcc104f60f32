"""Group commit: writers that wait for the disk at the same time share one round of syncs.

A round makes everything durable that was noted before it began, whoever noted it. So a record that names another
writer's record is never durable without it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from godwit.storage.memory import folders_of

#: limit of folders remembered to have durable names
MOST_FOLDERS = 10_000


class GroupSync:
    """Collects names of files and folders, and syncs them when somebody has to wait for it."""

    def __init__(self, sync: Callable[[str], None]) -> None:
        self._sync = sync
        self._turn = threading.Condition()
        #: in the order in which they are synced: contents before the names that lead to them
        self._dirty: dict[str, None] = {}
        self._known_folders: set[str] = set()
        self._asked = self._done = 0
        self._running = False
        #: whether the next round, and the one that runs, make files durable that records are to name
        self._staged = self._settling = False
        #: rounds so far
        self.rounds = 0

    def note(self, name: str, *, staged: bool = False, grown: bool = False) -> None:
        """A file was written: its content, its name and the folders above it are to become durable. `staged`: a record
        that names it is to follow (`settle`); `grown`: its name is durable already."""
        with self._turn:
            self._dirty[name] = None
            if not grown:
                self._note_folders(name)
            self._staged |= staged

    def settle(self) -> None:
        """Return when all that was staged so far is durable."""
        with self._turn:
            pending = self._staged or self._settling
        if pending:
            self.wait()

    def note_entry(self, act: Callable[[], None], name: str) -> None:
        """Do something that makes a name appear. A reader that sees it can rely on its own next round to include it."""
        with self._turn:
            act()
            self._note_folders(name)
            self._staged = True

    def _note_folders(self, name: str) -> None:
        # A folder that is new to us may be new to the one above it, too.
        for folder in reversed(["", *folders_of(name)]):
            self._dirty.pop(folder, None)  # after the files in it
            self._dirty[folder] = None
            if folder in self._known_folders:
                return
            if len(self._known_folders) >= MOST_FOLDERS:
                self._known_folders.clear()  # they are synced once more; every commit has a folder of its own
            self._known_folders.add(folder)

    def wait(self) -> None:
        """Return when all that was noted so far is durable."""
        with self._turn:
            self._asked += 1
            mine = self._asked
            while self._running and self._done < mine:
                self._turn.wait()
            if self._done >= mine:
                return
            self._running, covers = True, self._asked
            dirty, self._dirty = self._dirty, {}
            self._settling, self._staged = self._staged, False
        done = 0
        try:
            for name in dirty:
                self._sync(name)
                done += 1
        finally:
            with self._turn:
                if done == len(dirty):
                    self._done = covers
                else:  # the next one has to do it, or to fail as well
                    self._dirty = dict.fromkeys(list(dirty)[done:]) | self._dirty
                    self._staged |= self._settling
                self._running = self._settling = False
                self.rounds += 1
                self._turn.notify_all()
