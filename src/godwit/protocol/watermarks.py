"""Clocks: how far each source has come, as one region has heard it. Pure; the runtime and the simulator both run it.

A source is one device's rows of one stream ("passengers/train-7"). It promises: every row I will still send is at or
after my clock. A device that moves to another region begins a new *session* there; the old session is over when its
last row has been read. So the clock of a source is that of its oldest session that is not over: while the end of the
old one is still on its way, the new one does not count, however far it has come. A device that is away simply says
nothing, and its clock stands still: its buffered rows are never late by another's progress.

What is heard is kept for each operator at which rows arrive, because one region may be ahead of another on the same
source: `hear(operator, source, mark)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

#: of a source that will send nothing more, and of a query without sources
FOREVER = 2**62
#: before anything was heard
NEVER = -(2**62)


@dataclass(frozen=True)
class Mark:
    """What a source says of itself in one session."""

    session: int
    clock: int
    #: nothing more comes in this session; with the clock at FOREVER: nor in any other
    over: bool = False
    #: it is attached, but has been silent for too long: do not wait for it
    idle: bool = False
    #: how often the source was closed or begun again in this session, odd while it is closed: a later turn prevails
    turn: int = 0

    @property
    def closed(self) -> bool:
        """Nothing more comes unless it begins again: nobody waits for it. Its clock lies behind all windows so far."""
        return self.turn % 2 == 1

    def to_json(self) -> list[Any]:
        return [self.session, self.clock, int(self.over), int(self.idle), self.turn]

    @staticmethod
    def from_json(record: list[Any]) -> Mark:
        return Mark(record[0], record[1], bool(record[2]), bool(record[3]), record[4])

    def joined(self, later: Mark) -> Mark:
        """Both said of the same session, in whatever order they came by."""
        mine, other = (self.turn, self.clock, self.over), (later.turn, later.clock, later.over)
        ahead = self if mine > other else later
        return Mark(self.session, ahead.clock, self.over or later.over, ahead.idle, ahead.turn)


class WatermarkTracker:
    """All marks heard by one region for one shape, and the clocks that follow from them."""

    def __init__(self) -> None:
        #: (operator, source) -> marks of the sessions that are not over, and of later ones; oldest first
        self._marks: dict[tuple[int, str], dict[int, Mark]] = {}

    def expect(self, operator: int, source: str, session: int) -> None:
        """From now on the source counts, beginning with this session. What is known already stays."""
        self._marks.setdefault((operator, source), {session: Mark(session, NEVER)})

    def hear(self, operator: int, source: str, mark: Mark) -> None:
        """Take in what arrived; marks may repeat and, for different sessions, come in any order."""
        sessions = self._marks.setdefault((operator, source), {mark.session: mark})
        if mark.session < min(sessions):
            return  # of a session that is long over
        known = sessions.get(mark.session)
        sessions[mark.session] = mark if known is None else known.joined(mark)
        self._step_over_ended(sessions)

    def is_news(self, operator: int, source: str, mark: Mark) -> bool:
        """Whether hearing the mark would change anything."""
        sessions = self._marks.get((operator, source))
        if sessions is None:
            return True
        known = sessions.get(mark.session)
        return mark.session >= min(sessions) and (known is None or known.joined(mark) != known)

    def forget(self, source: str) -> None:
        """The source is nobody's any more."""
        for key in [key for key in self._marks if key[1] == source]:
            del self._marks[key]

    def mark(self, operator: int, source: str) -> Mark | None:
        """The mark that counts: of the oldest session that is not over."""
        sessions = self._marks.get((operator, source))
        return sessions[min(sessions)] if sessions else None

    def marks(self, operator: int) -> dict[str, list[Mark]]:
        """Everything to tell the next operator about: all sessions known at this one."""
        return {
            source: [sessions[n] for n in sorted(sessions)]
            for (op, source), sessions in self._marks.items()
            if op == operator
        }

    def clock(self, operator: int, sources: Iterable[str]) -> int:
        """The least clock of the sources. Idle ones do not count, unless all are idle: then nothing moves.

        Closed ones do not count either; once all are, it is as far as the one that was closed last says.
        """
        least, least_of_all = FOREVER, FOREVER
        awake, counted, ended = False, False, FOREVER
        for source in sources:
            mark = self.mark(operator, source)
            if mark is not None and mark.closed:
                ended = mark.clock if ended >= FOREVER else max(ended, mark.clock)
                continue
            counted = True
            clock = NEVER if mark is None else mark.clock
            least_of_all = min(least_of_all, clock)
            if mark is None or not mark.idle:
                awake = True
                least = min(least, clock)
        if not counted:
            return ended
        return least if awake else least_of_all

    def to_json(self) -> list[list[Any]]:
        return [
            [operator, source, [mark.to_json() for mark in sessions.values()]]
            for (operator, source), sessions in self._marks.items()
        ]

    @staticmethod
    def from_json(records: Iterable[list[Any]]) -> WatermarkTracker:
        book = WatermarkTracker()
        for operator, source, marks in records:
            known = [Mark.from_json(mark) for mark in marks]
            book._marks[(operator, source)] = {mark.session: mark for mark in known}
        return book

    @staticmethod
    def _step_over_ended(sessions: dict[int, Mark]) -> None:
        """Go on to the session after one that is over, heard of or not; a clock never goes back on the way."""
        while (ended := sessions[min(sessions)]).over and ended.clock < FOREVER:
            del sessions[ended.session]
            following = ended.session + 1
            heir = sessions.get(following, Mark(following, NEVER))
            clock = heir.clock if ended.closed else max(heir.clock, ended.clock)
            sessions[following] = Mark(following, clock, heir.over, heir.idle, heir.turn)


def source_id(stream: str, device: str) -> str:
    return f"{stream}/{device}"


def split_source(source: str) -> tuple[str, str]:
    stream, _, device = source.partition("/")
    return stream, device


def changed(before: Mapping[str, list[Mark]], after: Mapping[str, list[Mark]]) -> Iterator[tuple[str, list[Mark]]]:
    """What to tell of `after` to somebody who knows `before`."""
    return ((source, marks) for source, marks in after.items() if before.get(source) != marks)
