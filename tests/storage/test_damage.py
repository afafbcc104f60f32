"""Damaged folders: nothing is silently wrong. An error names the file, `godwit check` lists it, foreign files stay."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from godwit.api.fleet import Fleet
from godwit.delivery.sinks import JsonLinesSink, ParquetSink
from godwit.errors import StateError
from godwit.maintenance.check import findings
from godwit.maintenance.housekeeping import Retention
from godwit.maintenance.repair import repair
from godwit.model.topology import Link, Site, Topology
from godwit.observe.history import History
from godwit.storage import chunk, inline
from godwit.storage.state_memory import remembered, since_snapshot
from godwit.storage.store import Store

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
WINDOWS = "SELECT name, sum(size) AS total, window.end AS at FROM readings GROUP BY window(ts, '10 seconds'), name"


def rows(device: str, first: int, count: int = 5) -> list[dict[str, Any]]:
    return [{"name": device, "size": i, "ts": START + dt.timedelta(seconds=3 * i)} for i in range(first, first + count)]


def opened(folder: Path, spark: SparkSession) -> Fleet:
    fleet = Fleet(folder / "fleet", spark, retention=Retention(keep=True))
    for query in ("all", "windows"):
        if query in fleet.queries:
            fleet.query(query).write_to(JsonLinesSink(folder / f"{query}.jsonl"))
            fleet.query(query).write_to(ParquetSink(folder / query))
    return fleet


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fleet that has worked for a while, with rows that nobody has read yet. It has written many chunks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunk, "CHUNK_RECORDS", 1)
        return worked(tmp_path_factory.mktemp("made"), spark)


@pytest.fixture(scope="module")
def made_in_files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, with rows in files of their own, as if they were many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inline, "INLINE_BYTES", 0)
        return worked(tmp_path_factory.mktemp("files"), spark)


def worked(folder: Path, spark: SparkSession) -> Path:
    fleet = opened(folder, spark)
    fleet.topology.add(Topology.of([Site("w", "west"), Site("e", "east")], [Link("w", "e", 1.0)]))
    fleet.stream("readings", "name string, size int, ts timestamp", device="name")
    for device, site in (("a", "w"), ("b", "e")):
        fleet.device(device, site=site, streams=["readings"])
    fleet.submit("SELECT name, size, ts FROM readings", "all", sink="e")
    fleet.submit(WINDOWS, "windows", sink="e")
    for batch in range(3):
        for device in ("a", "b"):
            fleet.push("readings", rows(device, batch * 5))
        fleet.process_available()
        fleet.stop()
        fleet = opened(folder, spark)
        fleet.process_available()
    for device in ("a", "b"):
        fleet.push("readings", rows(device, 15))
    fleet.stop()
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy, in a place of its own: sinks' outputs, too, whose paths are as they were."""
    shutil.copytree(made, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture
def in_files(made_in_files: Path, tmp_path: Path) -> Path:
    shutil.copytree(made_in_files, tmp_path / "files")
    return tmp_path / "files"


@pytest.fixture
def reopen(spark: SparkSession) -> Iterator[Callable[[Path], Fleet]]:
    fleets: list[Fleet] = []

    def reopen_(folder: Path) -> Fleet:
        fleets.append(opened(folder, spark))
        return fleets[-1]

    yield reopen_
    for fleet in fleets:
        fleet.stop()


def finish(fleet: Fleet) -> None:
    """Everything that came is answered, and is what the batch answers."""
    fleet.close_sources()
    fleet.process_available()
    for query in ("all", "windows"):
        verdict = fleet.query(query).verdict()
        assert verdict.equal, verdict
        assert verdict.got > 3


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0x55
    file.write_bytes(bytes(data))


def remove(file: Path) -> None:
    file.unlink()


def newest_source(folder: Path) -> Path:
    return max((folder / "fleet/regions/west/sources/readings/data").glob("*.parquet"))


def state(folder: Path) -> Path:
    store = Store.local(folder / "fleet")
    for commits in sorted(folder.glob("fleet/regions/*/shapes/*/commits")):
        log = store.log(str(commits.relative_to(folder / "fleet")))
        memory = remembered(None, since_snapshot(log))
        for segment in () if memory is None else memory.segments():
            return folder / "fleet" / segment.files[0]
    raise AssertionError


def result(folder: Path) -> Path:
    store = Store.local(folder / "fleet")
    for commits in sorted(folder.glob("fleet/regions/*/shapes/*/commits")):
        for _, record in store.log(str(commits.relative_to(folder / "fleet"))).after(0):
            for segment in record["results"]:
                return folder / "fleet" / segment["files"][0]
    raise AssertionError


def test_a_copied_and_renamed_folder_goes_on(made: Path, folder: Path, reopen: Callable[[Path], Fleet]) -> None:
    shutil.move(folder, moved := folder.with_name("renamed"))
    before = sorted(p.stat().st_mtime_ns for p in made.rglob("*"))
    assert not [f for f in findings(Store.local(moved / "fleet")) if f.severity == "error"]
    finish(reopen(moved))
    assert sorted(p.stat().st_mtime_ns for p in made.rglob("*")) == before  # nothing was read, or written, over there


def test_foreign_files_are_ignored(folder: Path, reopen: Callable[[Path], Fleet]) -> None:
    for place in [folder / "fleet", *(p for p in folder.glob("fleet/**") if p.is_dir())]:
        (place / "notes.json").write_text("mine")
        (place / ".DS_Store").write_bytes(b"\x00\x01")
    assert {f.severity for f in findings(Store.local(folder / "fleet"))} == {"note"}
    fleet = reopen(folder)
    finish(fleet)
    fleet.supervisor.sweep()
    fleet.status()


@pytest.mark.parametrize("damage", [cut, flip, remove])
@pytest.mark.parametrize("which", [newest_source, state, result])
def test_a_damaged_parquet_file_is_named(
    in_files: Path, reopen: Callable[[Path], Fleet], which: Callable[[Path], Path], damage: Callable[[Path], None]
) -> None:
    folder = in_files
    file = which(folder)
    damage(file)
    with pytest.raises(StateError, match=rf"{file.name} is (damaged|missing).*godwit check"):
        finish(reopen(folder))
    named = [f for f in findings(Store.local(folder / "fleet")) if f.severity == "error"]
    assert {folder / "fleet" / f.where for f in named} == {file}


@pytest.mark.parametrize("damage", [cut, flip])
def test_a_damaged_document_is_named(
    folder: Path, reopen: Callable[[Path], Fleet], damage: Callable[[Path], None]
) -> None:
    shutil.rmtree(folder / "fleet/sinks/all")  # (of sinks over there)
    reopen(folder).stop()
    file = sorted(folder.glob("fleet/sinks/all/*.json"))[0]
    damage(file)
    with pytest.raises(StateError, match=rf"{file.name} is damaged.*godwit check"):
        reopen(folder)
    named = [f for f in findings(Store.local(folder / "fleet")) if f.severity == "error"]
    assert {folder / "fleet" / f.where for f in named} == {file}


@pytest.mark.parametrize("log", ["control", "regions/west/sources/readings", "regions/east/shapes/*/commits"])
def test_a_damaged_chunk_is_named(folder: Path, reopen: Callable[[Path], Fleet], log: str) -> None:
    for chunks in [sorted(found.glob("*.log")) for found in folder.glob(f"fleet/{log}")]:
        flip(chunks[-2])
    with pytest.raises(StateError, match=r"\d+\.log is damaged.*godwit check"):
        finish(reopen(folder))
    named = {folder / "fleet" / f.where for f in findings(Store.local(folder / "fleet")) if f.severity == "error"}
    assert named == {sorted(found.glob("*.log"))[-2] for found in folder.glob(f"fleet/{log}")}


def test_a_log_that_was_cut_off_ends_before_what_others_have_read(
    folder: Path, reopen: Callable[[Path], Fleet]
) -> None:
    """Where a file ends within a record, nobody was told of that one; but of those before it somebody was."""
    chunks = sorted((folder / "fleet/control").glob("*.log"))
    chunks[-1].unlink()
    cut(chunks[-2])
    with pytest.raises(StateError, match=r"control: its newest records are missing: it ends at \d+, but region"):
        reopen(folder)


def test_a_history_that_was_cut_off_is_read_as_far_as_it_goes(folder: Path, reopen: Callable[[Path], Fleet]) -> None:
    file = folder / "fleet/history.jsonl"
    stories = History(Store.local(folder / "fleet")).read()
    file.write_bytes(file.read_bytes()[:-20])
    left = reopen(folder).history.read()
    assert left[:-1] == stories[: len(left) - 1]
    assert len(left) in (len(stories) - 1, len(stories))  # (a story may be told twice)
    (found,) = [f for f in findings(Store.local(folder / "fleet")) if f.severity == "warning"]
    assert found.where == "history.jsonl"
    assert repair(Store.local(folder / "fleet"), [found])
    assert not findings(Store.local(folder / "fleet"))


def test_the_newest_source_records_are_missing(folder: Path, reopen: Callable[[Path], Fleet]) -> None:
    chunks = sorted((folder / "fleet/regions/west/sources/readings").glob("*.log"))
    for file in chunks[1:]:
        file.unlink()
    with pytest.raises(StateError, match=r"sources/readings: its newest records are missing: it ends at 1, but .* has"):
        reopen(folder)


def test_a_record_in_the_middle_is_missing(folder: Path, reopen: Callable[[Path], Fleet]) -> None:
    (folder / "fleet/regions/west/sources/readings/0000000002.log").unlink()
    with pytest.raises(StateError, match=r"sources/readings: records 2 to 2 are missing"):
        reopen(folder)


@pytest.mark.parametrize("region", ["west", "east"])
def test_a_regions_folder_is_missing(folder: Path, reopen: Callable[[Path], Fleet], region: str) -> None:
    shutil.rmtree(folder / "fleet/regions" / region)
    with pytest.raises(StateError, match=rf"regions/{region}/\S+: its newest records are missing: it ends at 0"):
        reopen(folder)


def test_what_a_sink_has_written_is_missing(made: Path, spark: SparkSession, tmp_path: Path) -> None:
    """And is delivered again after a repair: every row, once."""
    folder = tmp_path / "here"
    shutil.copytree(made / "fleet", folder / "fleet")
    for name in list((folder / "fleet/sinks").iterdir()):
        shutil.rmtree(name)  # (they name the outputs of the folder that was copied)
    fleet = opened(folder, spark)
    fleet.process_available()
    fleet.supervisor.sweep()
    fleet.stop()
    whole = sorted(json.loads(line)["size"] for line in (folder / "all.jsonl").read_text().splitlines())
    assert len(whole) == 40
    cut(folder / "all.jsonl")
    max((folder / "all").glob("*.parquet")).unlink()
    (folder / "windows.jsonl").unlink()
    with pytest.raises(StateError, match=r"all\.jsonl was cut off.*--repair"):
        opened(folder, spark)
    found = findings(Store.local(folder / "fleet"))
    assert {(f.severity, f.remedy) for f in found} == {("error", "redeliver")}
    assert len(found) == 3
    repair(Store.local(folder / "fleet"), found)
    assert not findings(Store.local(folder / "fleet"))
    fleet = opened(folder, spark)
    fleet.process_available()
    fleet.stop()
    assert sorted(json.loads(line)["size"] for line in (folder / "all.jsonl").read_text().splitlines()) == whole
    assert sorted(r["size"] for r in spark.read.parquet(str(folder / "all")).collect()) == whole
    assert (folder / "windows.jsonl").stat().st_size


def commits(folder: Path) -> Path:
    """The largest commit log: of the windows."""
    return max(folder.glob("fleet/regions/east/shapes/*/commits/*.log"), key=lambda file: file.stat().st_size)


@pytest.mark.parametrize("which", [state, result, commits])
def test_state_and_results_are_computed_again(
    in_files: Path, reopen: Callable[[Path], Fleet], which: Callable[[Path], Path]
) -> None:
    folder = in_files
    flip(which(folder))
    store = Store.local(folder / "fleet")
    told = repair(store, findings(store))
    assert any("computed again from its sources" in line for line in told), told
    assert not [f for f in findings(Store.local(folder / "fleet")) if f.severity == "error"]
    finish(reopen(folder))


def test_what_cannot_be_mended_is_said(in_files: Path) -> None:
    folder = in_files
    store = Store.local(folder / "fleet")
    flip(newest_source(folder))
    flip(state(folder))
    told = repair(store, findings(store))
    assert any(line.startswith("cannot mend regions/west/sources/readings/data/") for line in told)
    assert any(line.startswith("cannot compute shape") and "damaged" in line for line in told)
