"""One process at a time in a folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from godwit.api.fleet import Fleet
from godwit.errors import StateError
from godwit.observe.status import Ledger
from godwit.storage.lock import FolderLock, holder
from godwit.storage.store import Store

OTHER = """
import sys, time
from godwit.storage.lock import FolderLock
lock = FolderLock(sys.argv[1])
lock.take()
print("taken", flush=True)
time.sleep(60)
"""


def _other(folder: Path) -> subprocess.Popen[str]:
    other = subprocess.Popen([sys.executable, "-c", OTHER, str(folder)], stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert other.stdout.readline() == "taken\n"
    return other


def test_a_second_process_is_told_who_holds_the_folder(tmp_path: Path) -> None:
    other = _other(tmp_path)
    try:
        with pytest.raises(StateError, match=f"in use by process {other.pid} on .* since 2"):
            FolderLock(tmp_path).take()
        found = holder(tmp_path)
        assert found is not None
        assert found["pid"] == other.pid
    finally:
        other.kill()
        other.wait()


def test_the_lock_of_a_dead_process_is_free(tmp_path: Path) -> None:
    other = _other(tmp_path)
    os.kill(other.pid, signal.SIGKILL)
    other.wait()
    assert holder(tmp_path) is None
    lock = FolderLock(tmp_path)
    lock.take()
    lock.release()


def test_users_in_one_process_share_it_and_the_last_one_lets_go(tmp_path: Path) -> None:
    first, second = FolderLock(tmp_path), FolderLock(tmp_path)
    first.take()
    second.take()
    first.release()
    assert holder(tmp_path) is not None
    second.release()
    assert holder(tmp_path) is None


def test_a_fleet_does_not_open_beside_another_process_but_status_does(spark: SparkSession, tmp_path: Path) -> None:
    Fleet(tmp_path, spark).stop()
    other = _other(tmp_path)
    try:
        with pytest.raises(StateError, match=f"in use by process {other.pid}"):
            Fleet(tmp_path, spark)
        assert Ledger(Store.local(tmp_path)).status().epoch == 0
    finally:
        other.kill()
        other.wait()
    Fleet(tmp_path, spark).stop()
    assert holder(tmp_path) is None
