"""A coordinator that is started while regions run: it takes nothing from them."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from godwit.api.core import FleetOptions
from godwit.process.coordinator_agent import CoordinatorAgent
from godwit.process.members import Membership
from godwit.storage.store import Store

pytestmark = pytest.mark.lane("other")


def test_state_that_has_landed_in_a_region_stays_when_a_coordinator_is_started(tmp_path: Path) -> None:
    store = Store.local(tmp_path)
    store.disk.write("landing/west/ab/part.parquet", b"on its way into a commit")
    agent = CoordinatorAgent(store, "token", FleetOptions(), cast(Membership, None))
    try:
        assert store.disk.exists("landing/west/ab/part.parquet")
    finally:
        agent.folder_lock.release()
