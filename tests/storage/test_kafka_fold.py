"""Which messages of a topic are records: every reader decides the same, whoever writes, wherever he begins."""

from __future__ import annotations

import random

import pytest

from godwit.errors import ConfigError
from godwit.storage.kafka_log import UNREAD, TopicFold, topic_of
from godwit.storage.open_store import check_url, open_store


def _folded(messages: list[tuple[int, int, bytes]], since: int = 0) -> TopicFold:
    fold = TopicFold(since)
    for message in messages:
        if message[0] >= since:
            fold.take(*message)
    return fold


def test_the_first_message_with_a_number_is_its_record() -> None:
    fold = TopicFold(0)
    assert fold.take(0, 1, b"mine")
    assert not fold.take(1, 1, b"theirs")
    assert fold.take(2, 2, b"theirs")
    assert not fold.take(3, 4, b"too far")
    assert not fold.take(4, 1, b"late")
    assert (fold.first, fold.last, fold.offsets) == (1, 2, [0, 2])
    assert fold.take(2, 2, b"theirs"), "the same message once more"
    assert not fold.take(1, 1, b"theirs")


@pytest.mark.parametrize("seed", range(50))
def test_writers_that_race_and_readers_from_any_record_agree(seed: int) -> None:
    """Writers know the log as it was a while ago; each message counts for everybody, or for nobody."""
    rng, topic, truth = random.Random(seed), list[tuple[int, int, bytes]](), TopicFold(0)
    stale = [0, 0, 0]
    for offset in range(200):
        writer = rng.randrange(3)
        number = stale[writer] + 1
        data = f"{writer} {offset}".encode()
        topic.append((offset, number, data))
        taken = truth.take(offset, number, data)
        assert taken == (number == len(truth.offsets) and truth.offsets[-1] == offset)
        if not taken or rng.random() < 0.5:
            stale[writer] = truth.last
    for number in range(truth.first, truth.last + 1):
        later = _folded(topic, truth.offsets[number - truth.first])
        assert (later.first, later.last) == (number, truth.last)
        assert later.offsets == truth.offsets[number - truth.first :]


def test_a_reader_whose_messages_were_cut_off_goes_on_with_the_first_that_is_kept() -> None:
    fold = _folded([(0, 1, b""), (1, 2, b"")])
    assert fold.take(7, 6, b"x")  # offsets 2 to 6 are gone: records are cut at a record
    assert (fold.first, fold.last, fold.offset_of(5)) == (6, 6, None)
    fold.take(8, 7, b"y")
    fold.cut(8)
    assert (fold.first, fold.last, fold.record_at(8), fold.record_at(7)) == (7, 7, 7, None)


def test_few_records_wait_to_be_read() -> None:
    fold = _folded([(n, n + 1, b"x") for n in range(UNREAD + 50)])
    assert len(fold.unread) == UNREAD
    assert fold.last == UNREAD + 50


def test_logs_have_topics_of_their_own() -> None:
    names = [
        "regions/a_b/sources/s",
        "regions/a.b/sources/s",
        "regions/a-b/sources/s",
        "regions/a/b-sources/s",
        "x" * 300,
    ]
    topics = {topic_of("my_fleet", name).replace(".", "_") for name in names}
    assert len(topics) == len(names)
    assert all(len(topic) < 249 for topic in topics)
    assert topic_of("f", "regions/west/shapes/ab/outbox/east").startswith(topic_of("f", "regions/west/shapes/ab") + ".")


def test_a_store_in_kafka_says_where_segments_go() -> None:
    check_url("kafka://127.0.0.1:9/fleet")
    with pytest.raises(ConfigError, match="Kafka keeps logs only; say where the rest goes"):
        open_store("kafka://127.0.0.1:9/fleet")
