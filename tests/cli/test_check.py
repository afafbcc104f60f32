"""`godwit check`: what is damaged is listed, and mended where it can be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from godwit.model.codec import encode
from godwit.model.deployment import Delta
from godwit.storage.epoch_log import Control
from godwit.storage.names import sink_position
from godwit.storage.store import Store
from tests.cli.conftest import Call

POSITION = sink_position("q", "0123456789ab")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A fleet's folder, as far as a check looks at it: one epoch, a sink that has delivered."""
    store = Store.local(tmp_path / "fleet")
    Control(store).publish(1, {"delta": encode(Delta()), "starts": {}, "moves": []})
    (tmp_path / "out.jsonl").write_text('{"a": 1}\n')
    saved = {"query": "q", "shape": "s", "sink": f"json:{tmp_path}/out.jsonl", "positions": {}, "state": {"bytes": 9}}
    store.put_document(POSITION, saved)
    return tmp_path / "fleet"


def test_a_sound_folder(call: Call, folder: Path) -> None:
    told = call("check", folder, "-o", "table")
    assert (told.exit_code, told.stdout) == (0, "everything is as it was written\n")


def test_findings_are_listed_and_mended(call: Call, folder: Path) -> None:
    (folder.parent / "out.jsonl").unlink()
    (folder / "notes.json").write_text("mine")
    told = call("check", folder)
    assert told.exit_code == 1
    assert [(f["severity"], f["where"]) for f in json.loads(told.stdout)["found"]] == [
        ("note", "notes.json"),
        ("error", f"{POSITION}.json"),
    ]
    mended = call("check", folder, "--repair")
    assert mended.exit_code == 0
    assert "all results will be delivered again" in mended.stdout
    assert [f["where"] for f in json.loads(mended.stdout)["left"]] == ["notes.json"]


def test_what_cannot_be_mended_stays_an_error(call: Call, folder: Path) -> None:
    (folder / "control/0000000001.log").write_bytes(b"something else" * 9)
    told = call("check", folder, "--repair", "-o", "table")
    assert told.exit_code == 1
    assert "cannot mend control/0000000001.log: it is damaged: there is no record at byte 0" in told.stdout


def test_errors_say_what_to_do(call: Call, tmp_path: Path) -> None:
    for folder, words in ((tmp_path / "nothing", "there is no folder"), (tmp_path, "is not a fleet's folder")):
        told = call("check", folder)
        assert told.exit_code == 1
        assert words in told.stderr
