"""Workers: one thread for quick pieces, more beside those that are stuck."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from godwit.delivery.workers import Workers


@pytest.fixture
def workers() -> Iterator[Workers]:
    made = Workers("test")
    made.start()
    yield made
    made.stop()


def test_pieces_are_begun_in_the_order_in_which_they_were_put(workers: Workers) -> None:
    seen, done = list[int](), threading.Event()
    for number in range(100):
        workers.put(lambda n=number: seen.append(n))  # type: ignore[misc]
    workers.put(done.set)
    assert done.wait(10)
    assert seen == list(range(100))


def test_one_thread_is_enough_for_quick_pieces(workers: Workers) -> None:
    threads, done = set[int](), threading.Semaphore(0)

    def work() -> None:
        threads.add(threading.get_ident())
        done.release()

    for _ in range(200):
        workers.put(work)
        assert done.acquire(timeout=10)
    assert len(threads) == 1


def test_a_piece_that_is_stuck_holds_nobody_up(workers: Workers) -> None:
    free, done = threading.Event(), threading.Event()
    for _ in range(5):
        workers.put(lambda: free.wait(30) and None)  # type: ignore[func-returns-value]
    workers.put(done.set)
    assert done.wait(10)
    free.set()


def test_a_piece_that_fails_ends_nothing(workers: Workers) -> None:
    done = threading.Event()
    workers.put(lambda: 1 / 0 and None)  # type: ignore[func-returns-value]
    workers.put(done.set)
    assert done.wait(10)


def test_what_is_put_off_comes_in_the_order_of_time(workers: Workers) -> None:
    seen, done = list[str](), threading.Event()
    workers.put_later(0.15, done.set)
    workers.put_later(0.10, lambda: seen.append("last"))
    workers.put_later(0.01, lambda: seen.append("first"))
    workers.put(lambda: seen.append("now"))
    assert done.wait(10)
    assert seen == ["now", "first", "last"]


def test_stopped_workers_have_ended_what_was_begun_and_forget_the_rest(workers: Workers) -> None:
    began, free, seen = threading.Event(), threading.Event(), list[str]()

    def slow() -> None:
        began.set()
        free.wait(10)
        seen.append("done")

    workers.put(slow)
    assert began.wait(10)
    workers.put_later(0.0, lambda: seen.append("too late"))
    threading.Timer(0.05, free.set).start()
    workers.stop()
    assert seen in (["done"], ["too late", "done"])  # (the second one may have begun)
    assert not workers.running
    workers.start()
    again = threading.Event()
    workers.put(again.set)
    assert again.wait(10)
