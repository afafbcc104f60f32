"""The real data, where it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data beside the project, or the one GODWIT_DATA names."""
    default = Path(__file__).parents[2].parent / "shared" / "data"
    folder = Path(os.environ.get("GODWIT_DATA", default))
    if not (folder / "berlin").is_dir():
        pytest.skip(f"the real data is not at {folder}; set GODWIT_DATA to its folder")
    return folder


@pytest.fixture(scope="session")
def berlin(shared: Path) -> Path:
    """The S-Bahn ring's towers, timetable and tracks."""
    return shared / "berlin"
