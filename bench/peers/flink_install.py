"""Where Flink is: PyPI's apache-flink in a virtual environment of its own, made by `make bench-peers`.

    ~/.cache/godwit/peers-flink-2.3.0/       the virtual environment (GODWIT_PEERS_VENV names another place)
    ~/.cache/.../flink-sql-parquet-2.3.0.jar Flink's Parquet format, which the wheel leaves out, as Ivy fetches it

Flink's Parquet format needs Hadoop's classes; PySpark, which is installed anyway, carries them. PyFlink 2.3 has wheels
for Python 3.9 to 3.12 and runs on Java 11, 17 and 21.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench._harness import say
from godwit.errors import ConfigError
from godwit.testing.packages import package_jars

VERSION = "2.3.0"
PARQUET = f"flink-sql-parquet-{VERSION}.jar"
HOW = "run `make bench-peers`, which installs it"
#: what PyFlink has wheels for
PYTHONS = ((3, 9), (3, 12))


@dataclass(frozen=True)
class FlinkInstall:
    python: Path
    #: what Flink calls FLINK_HOME
    home: Path
    java_home: Path
    parquet: Path
    hadoop_classpath: str


class MissingFlinkError(RuntimeError):
    """Flink is not installed; the message says what is missing."""


def venv() -> Path:
    named = os.environ.get("GODWIT_PEERS_VENV")
    return Path(named) if named else Path.home() / ".cache" / "godwit" / f"peers-flink-{VERSION}"


def find() -> FlinkInstall:
    """The installation, or a MissingFlinkError that says why there is none."""
    root = venv()
    python = root / "bin" / "python"
    homes = list(root.glob("lib/python3.*/site-packages/pyflink"))
    if not python.exists() or not homes or not (homes[0] / "lib" / f"flink-dist-{VERSION}.jar").exists():
        msg = f"no Flink {VERSION} in {root}; {HOW}"
        raise MissingFlinkError(msg)
    if not (root / PARQUET).exists():
        msg = f"no {PARQUET} in {root}; {HOW}"
        raise MissingFlinkError(msg)
    return FlinkInstall(python, homes[0], _java_home(), root / PARQUET, _hadoop())


def install() -> FlinkInstall:
    """Make what is missing."""
    try:
        return find()
    except MissingFlinkError as missing:
        say(str(missing))
    if not PYTHONS[0] <= sys.version_info[:2] <= PYTHONS[1]:
        here = ".".join(map(str, sys.version_info[:2]))
        msg = f"PyFlink {VERSION} has no wheel for Python {here}; it has for 3.9 to 3.12"
        raise MissingFlinkError(msg)
    root = venv()
    say(f"installing apache-flink {VERSION} from PyPI into {root} (900 MB)")
    subprocess.run([sys.executable, "-m", "venv", str(root)], check=True)
    subprocess.run([str(root / "bin" / "pip"), "install", "-q", f"apache-flink=={VERSION}"], check=True)
    if not (root / PARQUET).exists():
        say(f"fetching {PARQUET}")
        draft = root / f".{PARQUET}"
        shutil.copyfile(_fetched(), draft)
        draft.rename(root / PARQUET)
    return find()


def _fetched() -> Path:
    try:
        return package_jars("org.apache.flink", "flink-sql-parquet", VERSION, alone=True) / PARQUET
    except ConfigError as missing:
        msg = f"{missing}; or put {PARQUET} into {venv()}"
        raise MissingFlinkError(msg) from missing


def _java_home() -> Path:
    """The Java that we run on, if Flink runs on it too."""
    from godwit.engine.java import find_java_home

    return find_java_home()


def _hadoop() -> str:
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    return ":".join(str(path) for path in sorted(jars.glob("hadoop-client-*.jar")))


if __name__ == "__main__":
    say(f"Flink is in {install().home}")
