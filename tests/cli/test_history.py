"""`godwit history`, `godwit change` and the command line's manners, on a fleet's folder without a fleet."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from godwit.control.commands import ChangeTopology, Submit
from godwit.control.reconfigurations import ReconfigurationRecord, StateMoved
from godwit.ids import Epoch, QueryId
from godwit.model.change_text import parse_changes
from godwit.model.instances import InstanceId
from godwit.observe import history
from godwit.observe.history import History
from godwit.storage.command_log import CommandLog
from godwit.storage.store import Store
from tests.cli.conftest import Call


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "control").mkdir()
    history = History(Store.local(tmp_path))
    history.add(
        ReconfigurationRecord(
            1, "query 'occ' submitted", (QueryId("occ"),), (Epoch(1),), {"ToBeDeployed": 2}, outcome="committed"
        )
    )
    moved = StateMoved(InstanceId.parse("occ/3"), "west", "east", 2, "delta", 4096, 0.25)
    history.add(
        ReconfigurationRecord(
            2,
            "device t1 -> east",
            (QueryId("occ"),),
            (Epoch(2),),
            {"ToBeUpdated": 3},
            (moved,),
            {"plan": 0.002},
            "committed",
        )
    )
    return tmp_path


def test_the_list(call: Call, folder: Path) -> None:
    told = call("history", folder, "-o", "table")
    assert told.exit_code == 0
    for words in ("device t1 -> east", "3 updated", "4,096 B", "committed"):
        assert words in told.stdout


def test_one_in_full(call: Call, folder: Path) -> None:
    told = call("history", folder, "2", "-o", "table")
    assert "reconfiguration 2: committed" in told.stdout
    assert "west -> east, 2 hops, 4,096 bytes in 250.0 ms" in told.stdout


def test_as_json_when_nobody_looks(call: Call, folder: Path) -> None:
    assert [story["number"] for story in json.loads(call("history", folder).stdout)] == [1, 2]
    assert [story["number"] for story in json.loads(call("history", folder, "--last", 1).stdout)] == [2]
    assert json.loads(call("history", folder, 1).stdout)["cause"] == "query 'occ' submitted"


def test_errors_say_what_to_do(call: Call, folder: Path, tmp_path: Path) -> None:
    for arguments, words in (
        (("history", tmp_path / "nowhere"), "is not a fleet's folder"),
        (("history", folder, 9), "has no reconfiguration 9; it has 1 to 2"),
        (("history", folder, "-o", "xml"), "use auto, json or table"),
    ):
        told = call(*arguments)
        assert told.exit_code == 1
        assert told.stderr.startswith("error: ")
        assert words in told.stderr
        assert told.stdout == ""
    (folder / "history.jsonl").write_text("{")
    assert "history.jsonl:1: not a record" in call("history", folder).stderr


def test_unknown_commands_and_help(call: Call) -> None:
    assert call("fly").exit_code == 2
    told = call("--help")
    for name in ("demo", "run", "explain", "change", "history"):
        assert name in told.stdout


def test_changes_wait_for_a_fleet(call: Call, folder: Path) -> None:
    told = call("change", folder, "device t1 -> east", "site w failed", "--wait", 0)
    assert told.exit_code == 0
    assert "queued" in told.stdout
    commands = CommandLog(Store.local(folder))
    assert commands.read(1) == ChangeTopology(tuple(parse_changes(["device t1 -> east", "site w failed"])))
    assert commands.answer_of(1) is None


def test_queries_wait_for_a_fleet(call: Call, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_text("SELECT 1")
    assert call("submit", folder, "q", tmp_path / "q.sql", "--wait", 0).exit_code == 0
    assert "command 2" in call("withdraw", folder, "q", "--wait", 0).stdout
    assert CommandLog(Store.local(folder)).read(1) == Submit("q", "SELECT 1", None)
    told = call("submit", folder, "q", tmp_path / "no.sql", "--wait", 0)
    assert (told.exit_code, "neither SQL nor a file" in told.stderr) == (1, True)


def test_changes_that_cannot_be_sent(call: Call, folder: Path, tmp_path: Path) -> None:
    for arguments, words in (
        ((folder, "device t1 east"), "is no topology change"),
        ((tmp_path / "nowhere", "device t1 -> east"), "is not a fleet's folder"),
        ((folder,), "give either changes"),
        ((folder, "--trace", tmp_path / "no.jsonl"), "cannot be read"),
        ((folder, "--trace", tmp_path / "no.jsonl", "--speed", -1), "--speed must be more than 0"),
    ):
        told = call("change", *arguments)
        assert told.exit_code == 1
        assert words in told.stderr
    assert CommandLog(Store.local(folder)).last == 0


def test_a_trace_is_sent_moment_by_moment(call: Call, folder: Path) -> None:
    trace = Path(__file__).parent.parent / "fixtures" / "scenarios" / "good" / "two_trains.trace.jsonl"
    told = call("change", folder, "--trace", trace, "--speed", 1000, "--wait", 0)
    assert told.exit_code == 0, told.stderr
    commands = CommandLog(Store.local(folder))
    sent = [commands.read(number) for number in range(1, commands.last + 1)]
    assert sent == [
        ChangeTopology(tuple(parse_changes(changes)))
        for changes in (
            ["device t1 -> west", "device t2 -> east"],
            ["device t1 -> east"],
            ["device t2 -> nowhere"],
            ["device t2 -> west"],
        )
    ]


def test_commands_of_many_writers_have_one_order(folder: Path) -> None:
    logs = [CommandLog(Store.local(folder)) for _ in range(4)]
    numbers = [logs[k % 4].append(Submit(f"q{k}", "SELECT 1")) for k in range(40)]
    assert numbers == list(range(1, 41))
    assert logs[0].read(7) == Submit("q6", "SELECT 1")


def test_the_oldest_stories_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "KEEP", 5)
    written = History(Store.local(tmp_path))
    for number in range(1, 30):
        written.add(ReconfigurationRecord(number, "told"))
        written.add(ReconfigurationRecord(number, "told again"))
        assert len((tmp_path / "history.jsonl").read_text().splitlines()) <= 15
    numbers = [record["number"] for record in History(Store.local(tmp_path)).read()]
    assert numbers[-5:] == [25, 26, 27, 28, 29]
    assert {record["cause"] for record in written.read()} == {"told again"}


def test_a_command_that_is_not_there_is_guessed(call: Call) -> None:
    told = call("statsu")
    assert told.exit_code == 2
    assert "there is no command 'statsu'; did you mean 'status'?" in told.stderr


def test_a_project_that_cannot_be_written(call: Call, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    told = call("init", tmp_path / "file" / "project")
    assert told.exit_code == 1
    assert "cannot be made: Not a directory; choose another folder" in told.stderr
