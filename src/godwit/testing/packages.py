"""Java packages for tests and benches, by name: fetched by Ivy, which is part of Spark, as Ivy is configured here."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path

from godwit.errors import ConfigError

#: where they are kept from one run to the next, unless the environment names another folder
CACHE = Path.home() / ".cache" / "godwit-tests"
NAMED = "GODWIT_TEST_CACHE"


def spark_home() -> Path:
    """The folder of the installed PySpark; it is not imported."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


def package_jars(organisation: str, name: str, version: str, *, alone: bool = False, seconds: float = 240) -> Path:
    """The folder with the jars of a package and (unless `alone`) of what it needs. ConfigError: it cannot be had."""
    from godwit.engine.java import find_java_home

    cache = Path(os.environ.get(NAMED, CACHE))
    folder = cache / f"{name}-{version}"
    if (folder / "complete").exists():
        return folder
    (ivy,) = (spark_home() / "jars").glob("ivy-*.jar")
    only = ["-notransitive"] if alone else []
    command = [
        find_java_home() / "bin" / "java", "-jar", ivy, "-cache", cache / "ivy",
        "-dependency", organisation, name, version, "-confs", "default,runtime,master", *only,
        "-retrieve", f"{folder}/[artifact]-[revision].[ext]",
    ]  # fmt: skip
    try:
        got = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, timeout=seconds)
        said = got.stdout[-300:] if got.returncode or not list(folder.glob(f"{name}-*.jar")) else ""
    except subprocess.TimeoutExpired:
        said = f"nothing after {seconds:.0f} s"
    if said:
        msg = (
            f"{organisation}:{name}:{version} cannot be fetched here ({' '.join(said.split())}); put its jars into "
            f"{folder}, with an empty file named 'complete'"
        )
        raise ConfigError(msg)
    (folder / "complete").touch()
    return folder
