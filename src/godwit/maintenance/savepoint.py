"""A savepoint: all of a fleet that is not running, as another folder or as one file, which is opened like the first.

A fleet's logs are its state, and name their files relative to the folder. What is copied, or unpacked, is verified
afterwards, record by record; a copy that is not whole is removed again.
"""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from godwit.errors import ConfigError, StateError
from godwit.maintenance.check import findings
from godwit.storage.lock import FILE, FolderLock, holder, no_other
from godwit.storage.names import CONTROL, PROCESSES
from godwit.storage.store import Store

#: a target of this name is one file
ARCHIVES = (".tar.gz", ".tgz")


def export(folder: Path, target: Path, *, mine: bool = False) -> int:
    """Copy a fleet; returns the bytes that were written. `mine`: this process has it open, and nothing runs in it."""
    if not (folder / CONTROL).is_dir():
        msg = f"there is no fleet in {folder}; give the folder that it was opened with"
        raise ConfigError(msg)
    _check_empty(target)
    if target.resolve().is_relative_to(folder.resolve()):
        msg = f"{target} lies in the fleet's own folder, and would be copied with it; give a place outside of {folder}"
        raise ConfigError(msg)
    no_other(folder / PROCESSES)
    if holder(folder) is not None and not mine:
        msg = f"a fleet runs in {folder}; stop it first, so that nothing is half written"
        raise StateError(msg)
    lock = FolderLock(folder)
    lock.take()
    try:
        if not target.name.endswith(ARCHIVES):
            shutil.copytree(folder, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns(FILE))
            _verify(target, folder)
            return sum(file.stat().st_size for file in target.rglob("*") if file.is_file())
        target.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(target, "x:gz", compresslevel=1) as archive:
            archive.add(folder, "fleet", filter=lambda one: None if one.name == f"fleet/{FILE}" else one)
        return target.stat().st_size
    finally:
        lock.release()


def restore(source: Path, folder: Path) -> int:
    """Make a fleet of a savepoint (a file, or a folder) in a folder of its own; returns the bytes that were written."""
    if source.is_dir():
        return export(source, folder)
    _check_empty(folder)
    if not source.is_file() or not tarfile.is_tarfile(source):
        msg = f"{source} is no savepoint; give a folder or a file that `godwit export` has written"
        raise ConfigError(msg)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent) as place, tarfile.open(source) as archive:
        try:
            archive.extractall(place, filter="data")
        except (tarfile.TarError, OSError, EOFError) as error:
            msg = f"{source} is damaged ({error}); export the fleet again"
            raise StateError(msg) from error
        unpacked = Path(place) / "fleet"
        if not unpacked.is_dir():
            msg = f"{source} holds no fleet; give a file that `godwit export` has written"
            raise ConfigError(msg)
        _verify(unpacked, source)
        if folder.exists():
            folder.rmdir()
        unpacked.rename(folder)
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _check_empty(target: Path) -> None:
    if target.is_file() or (target.is_dir() and any(target.iterdir())):
        msg = f"{target} is not empty; give a folder that is, or that is not there yet"
        raise ConfigError(msg)


def _verify(copy: Path, source: Path) -> None:
    damaged = next((found for found in findings(Store.local(copy)) if found.severity == "error"), None)
    if damaged is not None:
        shutil.rmtree(copy)
        msg = f"{damaged.where}: {damaged.what}; `godwit check {source}` says what can be mended"
        raise StateError(msg)
