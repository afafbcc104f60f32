"""An event loop in a thread of its own, for drivers that only have an asynchronous interface."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """Runs coroutines from any other thread, until stopped."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], timeout: float | None = 60.0) -> T:
        """Wait for what it returns, or raise what it raises."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout)

    def stop(self) -> None:
        """What is still under way is broken off."""
        self.loop.call_soon_threadsafe(self._cancel)
        self._thread.join(10)
        self.loop.close()

    def _cancel(self) -> None:
        waiting = asyncio.all_tasks(self.loop)
        for task in waiting:
            task.cancel()
        ended = asyncio.gather(*waiting, return_exceptions=True)
        ended.add_done_callback(lambda _: self.loop.stop())
        if not waiting:
            self.loop.stop()
