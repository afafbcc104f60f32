"""Large micro-batches write files without running `chmod`: the class is there, and what it writes is read again."""

from __future__ import annotations

import os
import stat
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from godwit.engine import added_classes, segments
from godwit.engine.local_files import QUIET, RAW, file_system
from godwit.storage.place import Place
from godwit.storage.store import Store


def test_permissions_are_left_as_they_are(spark: Any, tmp_path: Path) -> None:
    assert file_system(spark) == QUIET
    assert file_system(spark.newSession()) == QUIET, "it is added once"
    (tmp_path / "file").write_text("x")
    modes = []
    for name in (QUIET, RAW):
        jvm = spark._jvm
        files = (
            jvm.java.lang.Class.forName(name)
            .getDeclaredConstructors()[0]
            .newInstance(spark._sc._gateway.new_array(jvm.Object, 0))
        )
        files.initialize(jvm.java.net.URI("file:///"), jvm.org.apache.hadoop.conf.Configuration())
        path = jvm.org.apache.hadoop.fs.Path(str(tmp_path / "file"))
        files.setPermission(path, jvm.org.apache.hadoop.fs.permission.FsPermission("0640"))
        modes.append(stat.S_IMODE(os.stat(tmp_path / "file").st_mode))
    assert modes[0] != modes[1] == 0o640


def test_regions_that_ask_at_once_add_it_once(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def add(*told: Any) -> bool:
        asked.append(told)
        time.sleep(0.05)
        return True

    monkeypatch.setattr(added_classes, "_known", {})
    monkeypatch.setattr(added_classes, "_added", add)
    threads = [threading.Thread(target=file_system, args=(spark,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(asked) == 1


def test_what_spark_writes_is_read_again(spark: Any, tmp_path: Path) -> None:
    rows = spark.range(1000).selectExpr("id", "cast(id AS string) AS name")
    written = segments.write(rows, Place(Store.local(tmp_path), "rows"), small=False)
    assert written is not None
    assert written.rows == 1000
    again = segments.read(spark, [written])
    assert again is not None
    assert sorted((row["id"], row["name"]) for row in again.toArrow().to_pylist()) == [(n, str(n)) for n in range(1000)]
