"""A savepoint: all of a fleet that is not running, copied into another folder, which can be opened like the first.

A fleet's logs are its state, and name their files relative to the folder. What is copied is verified afterwards, record
by record; a copy that is not whole is removed again.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from godwit.errors import ConfigError, StateError
from godwit.maintenance.check import findings
from godwit.storage.lock import FILE, FolderLock, holder
from godwit.storage.store import Store


def export(folder: Path, target: Path) -> int:
    """Copy a fleet; returns the bytes that were copied."""
    if not folder.is_dir() or not any(folder.iterdir()):
        msg = f"there is no fleet in {folder}; give the folder that it was opened with"
        raise ConfigError(msg)
    if target.exists() and any(target.iterdir()):
        msg = f"{target} is not empty; give a folder that is, or that is not there yet"
        raise ConfigError(msg)
    if holder(folder) is not None:
        msg = f"a fleet runs in {folder}; stop it first, so that nothing is half written"
        raise StateError(msg)
    lock = FolderLock(folder)
    lock.take()
    try:
        shutil.copytree(folder, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns(FILE))
    finally:
        lock.release()
    damaged = next((found for found in findings(Store.local(target)) if found.severity == "error"), None)
    if damaged is not None:
        shutil.rmtree(target)
        msg = f"{damaged.where}: {damaged.what}; `godwit check {folder}` says what can be mended"
        raise StateError(msg)
    return sum(file.stat().st_size for file in target.rglob("*") if file.is_file())
