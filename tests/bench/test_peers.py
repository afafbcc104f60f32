"""The pieces of `make bench-peers` answer the same question: equal checksums on tiny data, rows in pace, gaps."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench._harness import machine
from bench.engine.throughput import WORKLOADS
from bench.peers import data, flink_install, latency, pace, report, throughput
from bench.peers.flink import Flink, flink
from bench.peers.moves import silence, starting
from bench.peers.pace import Ears
from bench.peers.questions import SETS, Question
from pyspark.sql import SparkSession

ROWS = 3_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flink]:
    try:
        install = flink_install.find()
    except flink_install.MissingFlinkError as missing:
        pytest.skip(str(missing))
    with flink(install, tmp_path_factory.mktemp("peers") / "flink") as found:
        yield found


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_ours_and_plain_spark_have_equal_checksums(spark: SparkSession, tmp_path: Path, workload: object) -> None:
    inputs = {s.name: data.write(s, tmp_path / s.name, ROWS) for s in workload.streams}  # type: ignore[attr-defined]
    ours = throughput.ours(spark, workload, inputs, tmp_path)  # type: ignore[arg-type]
    native = throughput.native(spark, workload, inputs, tmp_path)  # type: ignore[arg-type]
    assert ours.check == native.check
    assert ours.check[0] > 0
    assert ours.rows == native.rows == sum(one.rows for one in inputs.values())


@pytest.mark.full
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_flink_has_the_checksums_too(spark: SparkSession, tmp_path: Path, cluster: Flink, workload: object) -> None:
    """With one reader: of two, one would be done with so few rows before the other has begun."""
    streams = workload.streams  # type: ignore[attr-defined]
    inputs = {s.name: data.write(s, tmp_path / s.name, ROWS, readers=1) for s in streams}
    native = throughput.native(spark, workload, inputs, tmp_path)  # type: ignore[arg-type]
    for backend in throughput.BACKENDS:
        found = throughput.flink_run(spark, cluster, workload, inputs, tmp_path, backend)  # type: ignore[arg-type]
        assert (found.check, found.rows) == (native.check, native.rows)


@pytest.mark.full
def test_flink_answers_the_twelve_questions(spark: SparkSession, tmp_path: Path, cluster: Flink) -> None:
    questions = SETS["12 queries of 4 shapes"]
    ears = Ears()
    with latency.flinks(cluster, questions, ears) as push:
        begin, count = pace.send(10, push)
        want = pace.expected(spark, questions, count, 2_000, 6_000)
        have = latency.until_there(ears, begin, 2_000, 6_000, sum(want.values()))
    assert have == want


@pytest.mark.full
def test_ours_answers_the_twelve_questions(spark: SparkSession, tmp_path: Path) -> None:
    """Every question that is asked under load: what reaches the callbacks is what a batch over the rows gives."""
    questions = SETS["12 queries of 4 shapes"]
    want = pace.expected(spark, questions, 6_000, 0, 4_000)
    assert {name for name, _, _ in want} == {question.name for question in questions}
    ears = Ears()
    with latency.ours(spark, tmp_path, questions, ears) as (push, _):
        begin, _ = pace.send(6, push)
        have = latency.until_there(ears, begin, 0, 4_000, sum(want.values()))
    assert have == want


def test_rows_in_pace_are_the_same_for_everybody() -> None:
    sent: list[pace.Row] = []
    reached: list[int] = []

    def push(rows: list[pace.Row], until: int) -> None:
        sent.extend(rows)
        reached.append(until)

    begin, count = pace.send(0.3, push, settle_s=0)
    assert begin % pace.GRAIN_MS == 0
    assert sent == pace.rows(0, count, begin)
    assert [until - begin for until in reached] == [100, 200, 300]
    assert len({row.device for row in sent}) == pace.DEVICES
    assert max(row.ms for row in sent) < begin + 300
    assert pace.table(sent).num_rows == 300


def test_a_line_of_flink_and_a_row_of_ours_are_heard_alike() -> None:
    from datetime import UTC, datetime

    ears = Ears()
    ears.line("window0,7,4200,2000\n")
    ears.row("window0", {"key": 7, "total": 4200, "at": datetime.fromtimestamp(2, UTC)}, 0.0)
    one, other = ears.heard
    assert (one.name, one.what, one.at) == (other.name, other.what, other.at) == ("window0", "7,4200", 2000)


def test_silence_is_the_longest_time_without_a_result_around_a_move() -> None:
    walls = [0.0, 100.0, 200.0, 900.0, 1000.0, 3000.0]
    assert silence(walls, 150, 950) == 700
    assert silence(walls, 0, 150) == 100
    assert silence(walls, 250, 300) == 700  # it began before and ended after
    assert silence(walls[:3], 150, 5000) == 4800  # nothing came any more


def test_moves_begin_with_the_first_row_in_pace() -> None:
    began = threading.Event()
    mover = threading.Thread(target=began.set)
    push = starting(lambda rows, reached: None, mover)
    now = int(time.time() * 1000)
    push([], now - 60_000)
    assert not began.is_set()
    push([], now)
    assert began.wait(5)
    push([], now)  # once is enough


def test_no_two_questions_of_a_set_are_alike() -> None:
    for name, questions in SETS.items():
        assert name.startswith(str(len(questions)))
        assert len({question.spark for question in questions}) == len({q.name for q in questions}) == len(questions)
    assert Question("x", "filter", 5).flink.endswith("WHERE `value` >= 5")


def test_the_page_says_what_is_missing() -> None:
    found = {"command": "make bench-peers", "seed": 1, "spark": "4", "machine": machine(), "flink_missing": "no wheel"}
    case = {"workload": "few_keys", "rows": 5, "rows_per_s": {"godwit": 3, "spark": 2}, "flink_backend": None}
    text = report.page({**found, "throughput": [{**case, "equal": True}]})
    assert "Flink is missing: no wheel." in text
    assert "| few keys | 5 | 3 | - | 2 | - | 1.50 | - | equal |" in text


def test_without_an_installation_the_error_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GODWIT_PEERS_VENV", str(tmp_path))
    with pytest.raises(flink_install.MissingFlinkError, match="make bench-peers"):
        flink_install.find()
