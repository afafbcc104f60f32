"""Nexmark's people, auctions and bids, with the standard parameters (nexmark/nexmark, GeneratorConfig).

Of every 50 events 1 is a person, 3 are auctions and 46 are bids, in this order. Ids are drawn from the recent past;
half of the bids go to a hot auction, three quarters of bidders and sellers are hot. A bidder is numbered from 1000 on
once, not twice as upstream has it: so its person is one that was there.
"""

from __future__ import annotations

import numpy as np

from godwit.ids import StreamId
from godwit.model.plan import Column, Stream
from godwit.workloads.base import NUMBER, SECOND, Made, Settings, below, of_events

PEOPLE, AUCTIONS, ALL = 1, 3, 50
HOT_AUCTIONS, HOT_SELLERS, HOT_BIDDERS = 2, 4, 4
#: one id in this number is hot
HOT_EVERY = 100
#: ids that are drawn from: this number of the newest, and some that do not exist yet
IN_FLIGHT, ACTIVE_PEOPLE, LEAD = 100, 1000, 10
FIRST_ID, FIRST_CATEGORY, CATEGORIES = 1000, 10, 5
STATES = np.array(["AZ", "CA", "ID", "OR", "WA", "WY"])
CITIES = np.array(
    ["Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne"]
)
CHANNELS = np.array(["Google", "Facebook", "Baidu", "Apple"])


def _stream(name: str, columns: str) -> Stream:
    known = [part.split() for part in f"source string, {columns}, ts timestamp".split(", ")]
    return Stream(StreamId(name), tuple(Column(n, t) for n, t in known), "ts", "source")


PERSON = _stream("person", "id bigint, name string, city string, state string")
AUCTION = _stream(
    "auction", "id bigint, seller bigint, category bigint, initial bigint, reserve bigint, expires timestamp"
)
BID = _stream("bid", "auction bigint, bidder bigint, price bigint, channel string")


def events(numbers: np.ndarray, at: np.ndarray, settings: Settings) -> Made:
    place = numbers % ALL
    kinds = {
        "person": (place < PEOPLE, _people),
        "auction": ((place >= PEOPLE) & (place < PEOPLE + AUCTIONS), _auctions),
        "bid": (place >= PEOPLE + AUCTIONS, _bids),
    }
    return {name: {NUMBER: numbers[mine], **make(numbers[mine], settings)} for name, (mine, make) in kinds.items()}


def _people(n: np.ndarray, settings: Settings) -> dict[str, object]:
    return {
        "id": _key(n // ALL, settings),
        "name": [f"person {number}" for number in n // ALL],
        "city": CITIES[below(settings, 1, n, len(CITIES))],
        "state": STATES[below(settings, 2, n, len(STATES))],
    }


def _auctions(n: np.ndarray, settings: Settings) -> dict[str, object]:
    newest = n // ALL
    hot = below(settings, 3, n, HOT_SELLERS) > 0
    seller = np.where(hot, newest // HOT_EVERY * HOT_EVERY, _some_person(newest, settings, 4, n))
    initial = _price(settings, 5, n)
    # As long as 1,667 events take, twice that at most.
    longest = 2 * (IN_FLIGHT * ALL // AUCTIONS) / settings.rate
    length = 1 + below(settings, 6, n, max(1, longest * SECOND))
    start = int(settings.start.timestamp() * SECOND)
    return {
        "id": _key(_last_auction(n), settings),
        "seller": _key(seller, settings),
        "category": FIRST_CATEGORY + below(settings, 7, n, CATEGORIES),
        "initial": initial,
        "reserve": initial + _price(settings, 8, n),
        "expires": start + (n * (SECOND / settings.rate)).astype(np.int64) + length,
    }


def _bids(n: np.ndarray, settings: Settings) -> dict[str, object]:
    newest, last = n // ALL, _last_auction(n)
    first = np.maximum(last - IN_FLIGHT, 0)
    cold = first + below(settings, 9, n, last - first + 1 + LEAD)
    auction = np.where(below(settings, 10, n, HOT_AUCTIONS) > 0, last // HOT_EVERY * HOT_EVERY, cold)
    hot = below(settings, 11, n, HOT_BIDDERS) > 0
    bidder = np.where(hot, newest // HOT_EVERY * HOT_EVERY + 1, _some_person(newest, settings, 12, n))
    usual = CHANNELS[below(settings, 14, n, len(CHANNELS))]
    other = [f"channel-{number}" for number in below(settings, 15, n, 10_000)]
    return {
        "auction": _key(auction, settings),
        "bidder": _key(bidder, settings),
        "price": _price(settings, 13, n),
        "channel": np.where(of_events(settings, 16, n) < 0.5, usual, other),
    }


def _last_auction(n: np.ndarray) -> np.ndarray:
    """The newest auction when an event happens, counted from 0."""
    epoch, place = n // ALL, n % ALL
    return np.asarray(epoch * AUCTIONS + np.clip(place - PEOPLE, -1, AUCTIONS - 1))


def _some_person(newest: np.ndarray, settings: Settings, what: int, n: np.ndarray) -> np.ndarray:
    """One of the last people, or one that is still to come."""
    people = newest + 1
    active = np.minimum(people, ACTIVE_PEOPLE)
    return np.asarray(people - active + below(settings, what, n, active + LEAD))


def _price(settings: Settings, what: int, n: np.ndarray) -> np.ndarray:
    return np.round(100 * 10 ** (6 * of_events(settings, what, n))).astype(np.int64)


def _key(ids: np.ndarray, settings: Settings) -> np.ndarray:
    """From 1000 on; where keys are limited, as many as there may be."""
    return FIRST_ID + (ids if settings.keys is None else ids % settings.keys)
