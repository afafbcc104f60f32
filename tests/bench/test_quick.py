"""The frame of the quick benches: areas, the one form of a line, and the core's page."""

from __future__ import annotations

import json
from pathlib import Path

import psutil
import pytest
from bench.core import report

from bench import quick
from tests.waiting import until


def test_an_unknown_area_is_an_error_that_lists_the_areas(capsys: pytest.CaptureFixture[str]) -> None:
    assert quick.main(["moon"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert all(area in err for area in ("'moon'", *quick.AREAS))


def test_an_area_that_is_not_built_prints_nothing_and_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quick, "AREAS", (*quick.AREAS, "castle_in_the_air"))
    assert quick.main(["castle_in_the_air"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "not built yet" in err


def test_without_an_area_all_are_run() -> None:
    assert quick.chosen(None) == quick.chosen("") == quick.AREAS


def test_a_line_has_exactly_the_agreed_keys() -> None:
    made = quick.line("core", {"experiment": "x", "ours": 1, "met": True, "more": 3})
    assert tuple(made) == quick.KEYS
    assert made["experiment"] == "core/x"
    assert (made["met"], made["oracle"], made["note"]) == (True, "n/a", "")
    assert json.loads(json.dumps(made)) == made


def test_rows_that_differ_miss_the_target_whatever_the_time() -> None:
    made = quick.line("core", {"experiment": "core/x", "met": True, "oracle": "different", "note": "fast"})
    assert (made["met"], made["oracle"], made["note"]) == (False, "n/a", "ORACLE different; fast")


@pytest.mark.parametrize(("met", "is_met"), [(None, True), (True, True), (False, False)])
def test_a_figure_without_a_target_cannot_miss_it(met: bool | None, is_met: bool) -> None:
    assert quick.line("a", {"experiment": "x", "met": met})["met"] is is_met
    assert quick.line("a", {"experiment": "failed"})["met"] is False


def test_the_cores_figures_compare_with_the_edition_before() -> None:
    moves = {"100": {"p50_ms": 1.0, "p95_ms": 2.0}, "10000": {"p50_ms": 4.0, "p95_ms": 6.0}}
    end, growth = report.move_figures(moves)
    assert end["met"]
    assert end["ratio"] > 100
    assert not growth["met"]  # four times as long is not flat
    assert "device move, 10000 sites" in report.page()


def test_an_area_that_takes_too_long_leaves_no_process_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A server that an area has started would go on, and hold up whatever is measured next."""
    package, mark = tmp_path / "bench_slow", tmp_path / "pid"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "quick.py").write_text(
        "import subprocess, sys, time\n"
        "def figures():\n"
        "    child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"    open({str(mark)!r}, 'w').write(str(child.pid))\n"
        "    yield {'experiment': 'a', 'met': True}\n"
        "    time.sleep(60)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = quick.run("slow", limit=2, package="bench_slow")
    assert [one["experiment"] for one in found] == ["slow/a", "slow/failed"]
    until(lambda: not _runs(int(mark.read_text())), 10)


def _runs(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
