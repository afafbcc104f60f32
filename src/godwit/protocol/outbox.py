"""Messages to other regions: of a commit, each receiver gets what concerns it, and no message if nothing does.

The commit is the one atomic record: it holds the content of all its messages, and the number of each. Publishing them
afterwards adds nothing. So a crash in between loses nothing either: the restart makes the messages of the last commit
again, and the numbers say which of them are there already.

What every receiver has to know (markers, marks, queries that failed) is the same for all, so it needs no table per
receiver: one that has never had a message makes the region announce everything to everybody.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from godwit.ids import Epoch, QueryId, RegionId
from godwit.protocol.commit import ProtocolCommit, markers_from_json, marks_from_json, marks_to_json
from godwit.protocol.handover import Migration
from godwit.protocol.inputs import PeerCommit, Sent

R = TypeVar("R")


def receivers(
    members: Iterable[RegionId], known: Container[RegionId], addressed: Iterable[RegionId], news: bool
) -> set[RegionId]:
    """Who gets a message of a commit. `known`: who had one before; `addressed`: rows or state are for them; `news`:
    there is something that all must know."""
    return {*addressed, *(region for region in members if news or region not in known)}


def messages(
    commit: ProtocolCommit,
    number: int,
    sent: Sequence[Sent[R]],
    handovers: Sequence[tuple[Migration, Any]],
    times: tuple[float | None, int | None] = (None, None),
    record: Any = None,
) -> dict[RegionId, PeerCommit[R]]:
    """The messages of the commit of that number. `times`: when its rows entered, and the newest event time."""
    found = {}
    numbers = commit.messages if any(mark.over for _, _, mark in commit.marks) else {}
    for receiver in commit.messages:
        mine = [one for one in sent if one.to == receiver]
        state = [(move, parcel) for move, parcel in handovers if move.target == receiver]
        public = (commit.epoch, commit.markers, commit.marks, mine, state, *times, record)
        failed = {query: (why.epoch, why.reason) for query, why in commit.failed.items()}
        wanted = [move for move in commit.wanted if move.source == receiver]
        found[receiver] = PeerCommit(*public, failed, number, wanted, numbers, commit.behind.get(receiver, {}))
    return found


def message_to_json(message: PeerCommit[Mapping[str, Any]]) -> dict[str, Any]:
    """As it is written; its rows are JSON already."""
    return {
        "commit": message.number,
        "epoch": int(message.epoch),
        "markers": {str(operator): int(epoch) for operator, epoch in message.markers.items()},
        "marks": marks_to_json(message.marks),
        "sent": [[one.operator, one.input, one.rows] for one in message.sent],
        "handovers": [parcel for _, parcel in message.handovers],
        "failed": {query: list(why) for query, why in message.failed.items()},
        "entered": message.entered,
        "newest_us": message.newest_us,
        "record": message.record,
        "wanted": [move.to_json() for move in message.wanted],
        **({"numbers": dict(message.numbers)} if message.numbers else {}),
        **({"behind": dict(message.behind)} if message.behind else {}),
    }


def message_from_json(
    record: Mapping[str, Any], here: RegionId, rows_of: Callable[[Any], tuple[R, int, int]]
) -> PeerCommit[R]:
    """`here`: who reads it; `rows_of`: the rows, how many, and how many bytes."""
    return PeerCommit(
        Epoch(record["epoch"]),
        markers_from_json(record["markers"]),
        tuple(marks_from_json(record["marks"])),
        [Sent(here, operator, side, *rows_of(rows)) for operator, side, rows in record["sent"]],
        [(Migration.from_json(parcel["move"]), parcel) for parcel in record["handovers"]],
        record["entered"],
        record["newest_us"],
        record["record"],
        {QueryId(query): (epoch, reason) for query, (epoch, reason) in record["failed"].items()},
        record["commit"],
        [Migration.from_json(move) for move in record.get("wanted", ())],
        record.get("numbers", {}),
        record.get("behind", {}),
    )
