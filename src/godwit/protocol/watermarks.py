"""Clocks: how far each source has come, as one region has heard it. Pure; the runtime and the simulator both run it.

A source is one device's rows of one stream ("passengers/train-7"). It promises: every row I will still send is at or
after my clock. A device that moves to another region begins a new *session* there; the old session is over when its
last row has been read. So the clock of a source is that of its oldest session that is not over: while the end of the
old one is still on its way, the new one does not count, however far it has come. A device that is away simply says
nothing, and its clock stands still: its buffered rows are never late by another's progress.

The number of a session comes from the epoch that began it (`session_of`), so that nothing of a device that has left
must be remembered to number its next one. The end of a session names the one that follows it.

What is heard is kept for each operator at which rows arrive, because one region may be ahead of another on the same
source: `hear(operator, source, mark)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

#: of a query without sources
FOREVER = 2**62
#: before anything was heard
NEVER = -(2**62)


def session_of(epoch: int) -> int:
    """The number of the sessions that an epoch begins; 1: of devices that were there before the first."""
    return epoch + 1


def epoch_of(session: int) -> int:
    """The epoch that began a session."""
    return session - 1


@dataclass(frozen=True)
class Mark:
    """What a source says of itself in one session."""

    session: int
    clock: int
    #: nothing more comes in this session
    over: bool = False
    #: it is attached, but has been silent for too long: do not wait for it
    idle: bool = False
    #: how often the source was closed or begun again in this session, odd while it is closed: a later turn prevails
    turn: int = 0
    #: of a session that is over: the one after it; 0: the device has left
    following: int = 0

    @property
    def left(self) -> bool:
        """The device has left, and all that it sent is known."""
        return self.over and not self.following

    @property
    def closed(self) -> bool:
        """Nothing more comes unless it begins again: nobody waits for it. Its clock lies behind all windows so far."""
        return self.turn % 2 == 1

    def to_json(self) -> list[Any]:
        return [self.session, self.clock, int(self.over), int(self.idle), self.turn, self.following]

    @staticmethod
    def from_json(record: list[Any]) -> Mark:
        return Mark(record[0], record[1], bool(record[2]), bool(record[3]), *record[4:])

    def joined(self, later: Mark) -> Mark:
        """Both said of the same session, in whatever order they came by."""
        mine, other = (self.turn, self.clock, self.over), (later.turn, later.clock, later.over)
        ahead = self if mine > other else later
        over, following = self.over or later.over, max(self.following, later.following)
        if over == ahead.over and following == ahead.following:
            return ahead
        return Mark(self.session, ahead.clock, over, ahead.idle, ahead.turn, following)


_UNHEARD = (Mark(1, NEVER),)
#: (operator, source) -> marks of the sessions that are not over, and of later ones; oldest first
Marks = dict[tuple[int, str], tuple[Mark, ...]]


class WatermarkTracker:
    """All marks heard by one region for one shape, and the clocks that follow from them."""

    def __init__(self, marks: Mapping[tuple[int, str], tuple[Mark, ...]] | None = None) -> None:
        # The values are never changed in place: what differs from the last commit is found by comparing them.
        self._marks: Marks = dict(marks or {})

    @property
    def known(self) -> Mapping[tuple[int, str], tuple[Mark, ...]]:
        """Everything that was heard and still counts."""
        return self._marks

    def expect(self, operator: int, source: str, session: int) -> None:
        """From now on the source counts, from this session on. Earlier ones that are known count before it."""
        known = self._marks.get((operator, source), ())
        if not known or session > known[-1].session:
            self.hear(operator, source, Mark(session, NEVER))

    def hear(self, operator: int, source: str, mark: Mark) -> None:
        """Take in what arrived; marks may repeat and, for different sessions, come in any order.

        A session before the first one known here is news if it is not over: this region has begun to listen while some
        of that session's rows were still unread.
        """
        key = (operator, source)
        marks = self._marks.get(key, (mark,))
        if len(marks) == 1 and marks[0].session == mark.session:
            now = marks[0].joined(mark)
            if not now.over:  # as it nearly always is
                self._keep(key, (now,))
                return
        if mark.session < marks[0].session and mark.over:
            return
        sessions = {known.session: known for known in marks}
        known = sessions.get(mark.session)
        sessions[mark.session] = mark if known is None else known.joined(mark)
        self._step_over_ended(sessions)
        self._keep(key, tuple(sessions[n] for n in sorted(sessions)))

    def _keep(self, key: tuple[int, str], marks: tuple[Mark, ...]) -> None:
        if self._marks.get(key) != marks:  # (what has not changed stays the same object: so it is no news to a commit)
            self._marks[key] = marks

    def sessions(self) -> dict[tuple[int, str], int]:
        """Of each source, the oldest session that is not known to be over, where that is not its first."""
        return {key: marks[0].session for key, marks in self._marks.items() if marks[0].session > 1}

    def reached(self, key: tuple[int, str], session: int) -> None:
        """Somebody knows that all sessions of a source before this one are over."""
        marks = self._marks.get(key)
        if marks is not None and marks[0].session < session:
            later = tuple(mark for mark in marks if mark.session > session)
            now = next((mark for mark in marks if mark.session == session), Mark(session, NEVER))
            self._marks[key] = (now, *later)

    def is_news(self, operator: int, source: str, mark: Mark) -> bool:
        """Whether hearing the mark would change anything."""
        marks = self._marks.get((operator, source))
        if marks is None:
            return True
        known = next((one for one in marks if one.session == mark.session), None)
        earlier = mark.session < marks[0].session
        return not (earlier and mark.over) and (known is None or known.joined(mark) != known)

    def forget(self, source: str, operator: int | None = None) -> None:
        """The source is nobody's any more: at one operator, or at all."""
        for key in [key for key in self._marks if key[1] == source and operator in (None, key[0])]:
            del self._marks[key]

    def mark(self, operator: int, source: str) -> Mark | None:
        """The mark that counts: of the oldest session that is not over."""
        marks = self._marks.get((operator, source))
        return marks[0] if marks else None

    def clock(self, heard: Iterable[tuple[int, str]]) -> int:
        """The least clock of some (operator, source). Idle ones do not count, unless all are idle: then nothing moves.

        Closed ones do not count either; once all are, it is as far as the one that was closed last says. Devices that
        have left say nothing at all: another may come, with rows of any time.
        """
        awake, idle, ended = list[int](), list[int](), list[int]()
        for key in heard:  # (many, in each micro-batch: no calls here)
            mark = (self._marks.get(key) or _UNHEARD)[0]
            if mark.turn % 2 == 1:
                ended.append(mark.clock)
            elif mark.over and not mark.following:
                ended.append(NEVER)
            else:
                (idle if mark.idle else awake).append(mark.clock)
        return min(awake or idle, default=max(ended, default=FOREVER))

    @staticmethod
    def _step_over_ended(sessions: dict[int, Mark]) -> None:
        """Go on to the session after one that is over, heard of or not; a clock never goes back on the way.

        After the last one of a device that has left comes whichever is known of next, and that begins again.
        """
        while (ended := sessions[min(sessions)]).over:
            following = ended.following or min((n for n in sessions if n > ended.session), default=0)
            if not following:
                return
            del sessions[ended.session]
            heir = sessions.get(following, Mark(following, NEVER))
            begins = ended.closed or ended.left
            sessions[following] = replace(heir, clock=heir.clock if begins else max(heir.clock, ended.clock))


def source_id(stream: str, device: str) -> str:
    return f"{stream}/{device}"


def split_source(source: str) -> tuple[str, str]:
    stream, _, device = source.partition("/")
    return stream, device
