"""Nexmark's suite: all columns of people, auctions and bids, and the queries q0 to q22.

Ids, hot ids, prices and lengths are those of `nexmark.py` (the standard parameters; a bidder is numbered from 1000 on
once). Texts that only pad a row to its size are as long as upstream makes them on average: person 200, auction 500, bid
100 bytes. Half of the bids come from four large channels, of the others' urls nine in ten name a channel_id.
"""

from __future__ import annotations

from importlib import resources
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from godwit.errors import ConfigError
from godwit.ids import StreamId
from godwit.model.plan import Column, Stream
from godwit.workloads import nexmark
from godwit.workloads.base import NUMBER, Function, Made, Reference, Settings, StreamWorkload, below, of_events

#: queries whose text is the published one, but for the names of columns that have none, and for its DDL: INSERT INTO,
#: CREATE TABLE and CREATE FUNCTION are what a program declares, CREATE VIEW is WITH, and how long is kept is a hint
AS_PUBLISHED = tuple(f"q{n}" for n in (0, 1, 2, 5, 7, 8, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 22))
SIDE_ROWS = 10_000
QUERIES = tuple(f"q{n}" for n in range(23))
FIRST = np.array(["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"])
LAST = np.array(["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"])
LETTERS = np.array(list("abcdefghijklmnopqrstuvwxyz"))


def _stream(name: str, columns: str) -> Stream:
    known = [part.split() for part in f"source string, {columns}".split(", ")]
    return Stream(StreamId(name), tuple(Column(n, t) for n, t in known), "dateTime", "source")


PERSON = _stream(
    "person",
    "id bigint, name string, emailAddress string, creditCard string, city string, state string, dateTime timestamp, "
    "extra string",
)
AUCTION = _stream(
    "auction",
    "id bigint, itemName string, description string, initialBid bigint, reserve bigint, dateTime timestamp, "
    "expires timestamp, seller bigint, category bigint, extra string",
)
BID = _stream(
    "bid",
    "auction bigint, bidder bigint, price bigint, channel string, url string, dateTime timestamp, extra string",
)

#: what queries read that do not read bids alone
_READS = dict.fromkeys(("q3", "q8"), (PERSON, AUCTION)) | dict.fromkeys(("q4", "q6", "q9", "q20"), (AUCTION, BID))


def events(numbers: np.ndarray, at: np.ndarray, settings: Settings) -> Made:
    """The short rows with the columns that the suite adds."""
    made = nexmark.events(numbers, at, settings)
    makers = {"person": _person, "auction": _auction, "bid": _bid}
    return {name: make(made[name], settings) for name, make in makers.items()}


def suite(query: str) -> StreamWorkload:
    """One of the queries with the streams that it reads; ConfigError: there is no such query."""
    if query not in QUERIES:
        msg = f"there is no query '{query}' in Nexmark's suite; there are q0 to q22"
        raise ConfigError(msg)
    text = (resources.files("godwit.workloads") / "queries" / "nexmark" / f"{query}.sql").read_text(encoding="utf-8")
    references, functions = REFERENCES if query == "q13" else (), FUNCTIONS if query == "q14" else ()
    return StreamWorkload(f"nexmark-{query}", _READS.get(query, (BID,)), text, events, references, functions)


def side_rows() -> list[dict[str, Any]]:
    """The bounded side input of q13: 10,000 rows, each a key and the same as text."""
    return [{"key": key, "value": str(key)} for key in range(SIDE_ROWS)]


def count_char(text: pa.Array, char: pa.Array) -> pa.Array:
    """How often a character is in a text; q14's own function."""
    sought = char[0].as_py() if len(char) else " "
    return pc.count_substring(text, sought).cast(pa.int64())


#: what q13 and q14 need beside the streams
REFERENCES = (Reference("side_input", "key bigint, value string", "key", side_rows),)
FUNCTIONS = (Function("count_char", count_char, "bigint"),)


def _person(rows: dict[str, object], settings: Settings) -> dict[str, object]:
    n = np.asarray(rows[NUMBER])
    names = [
        f"{first} {last}"
        for first, last in zip(
            FIRST[below(settings, 20, n, len(FIRST))], LAST[below(settings, 21, n, len(LAST))], strict=True
        )
    ]
    mails = [f"{a}@{b}.com" for a, b in zip(_text(settings, 22, n, 7), _text(settings, 23, n, 5), strict=True)]
    cards = [
        " ".join(f"{part:04d}" for part in parts)
        for parts in zip(*(below(settings, 24 + i, n, 10_000) for i in range(4)), strict=True)
    ]
    padding = _text(settings, 28, n, 120)
    return {**rows, "name": names, "emailAddress": mails, "creditCard": cards, "extra": padding}


def _auction(rows: dict[str, object], settings: Settings) -> dict[str, object]:
    n = np.asarray(rows[NUMBER])
    more = {"itemName": _text(settings, 30, n, 20), "description": _text(settings, 31, n, 100)}
    return {**rows, **more, "initialBid": rows["initial"], "extra": _text(settings, 32, n, 300)}


def _bid(rows: dict[str, object], settings: Settings) -> dict[str, object]:
    n = np.asarray(rows[NUMBER])
    channel = np.asarray(rows["channel"])
    usual = np.isin(channel, nexmark.CHANNELS)
    path = [f"https://www.nexmark.com/{a}/{b}/{c}/item.htm?query=1" for a, b, c in zip(
        *(_text(settings, 40 + i, n, 3 + i) for i in range(3)), strict=True)]  # fmt: skip
    told = ~usual & (of_events(settings, 44, n) < 0.9)
    numbers = below(settings, 45, n, 10_000)
    url = [
        f"{text}&channel_id={number}" if say else text for text, say, number in zip(path, told, numbers, strict=True)
    ]
    return {**rows, "url": url, "extra": _text(settings, 46, n, 16)}


def _text(settings: Settings, what: int, n: np.ndarray, length: int) -> list[str]:
    """Small letters, of one length: a few of them drawn, and repeated to fill it."""
    drawn = np.stack([below(settings, what * 10 + i, n, len(LETTERS)) for i in range(min(length, 8))], axis=1)
    letters = LETTERS[drawn[:, np.arange(length) % drawn.shape[1]]]
    return list(np.ascontiguousarray(letters).view(f"<U{length}")[:, 0].tolist())
