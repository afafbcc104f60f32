"""Work beside a region's loop, on a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from godwit.engine.size_policy import USUAL
from godwit.storage.log import Segment

Made = TypeVar("Made")
#: for how long (seconds) the loop waits for few rows to be joined: sooner done than looked for again. Where plans must
#: be compiled it takes longer, and the loop goes on
MOMENT = 0.1
#: what was left, or linked, lies in many small files
FEW_FILES = 4 * USUAL.handed_files


def started(make: Callable[[], Made], name: str) -> Future[Made]:
    job: Future[Made] = Future()

    def work() -> None:
        try:
            job.set_result(make())
        except BaseException as fault:  # told to whoever asks for the result
            job.set_exception(fault)

    # A daemon: a process that ends does not wait for it, and the next one begins again.
    threading.Thread(target=work, name=name, daemon=True).start()
    return job


def given_a_moment(job: Future[Any], read: Iterable[Segment]) -> None:
    """If few rows are read."""
    known = list(read)
    if sum(s.rows for s in known) <= USUAL.handed_rows and sum(len(s.files) for s in known) <= FEW_FILES:
        wait([job], MOMENT)
