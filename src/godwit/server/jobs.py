"""Long operations that are no commands (the oracle's verdict, waiting for the fleet): an id now, an answer later."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from godwit.errors import GodwitError
from godwit.server.problems import problem, refused

#: limits: jobs that run at a time, finished jobs that are remembered
RUNNING, KEPT = 4, 200


class Jobs:
    """Of one server; forgotten when it stops."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._known: dict[int, tuple[str, Future[Any]]] = {}

    def start(self, what: str, work: Callable[[], Any]) -> int:
        if sum(not done.done() for _, done in self._known.values()) >= RUNNING:
            raise refused(429, f"{RUNNING} long operations run already; wait for one of them", **{"Retry-After": "5"})
        number, answer = next(self._numbers), Future[Any]()
        self._known[number] = (what, answer)
        for old in [n for n, (_, done) in self._known.items() if done.done()][:-KEPT]:
            del self._known[old]

        def run() -> None:
            try:
                answer.set_result(work())
            except BaseException as error:  # whatever it is, the caller gets it
                answer.set_exception(error)

        threading.Thread(target=run, name=f"godwit-job-{number}", daemon=True).start()
        return number

    def known(self, number: int) -> bool:
        return number in self._known

    def done(self, number: int) -> bool:
        return self._known[number][1].done()

    def state(self, number: int) -> dict[str, Any]:
        what, answer = self._known[number]
        body: dict[str, Any] = {"job": number, "what": what}
        if not answer.done():
            return {**body, "state": "running"}
        error = answer.exception()
        if error is None:
            return {**body, "state": "done", "result": answer.result()}
        why = problem(error) if isinstance(error, GodwitError) else {"error": "InternalError", "message": str(error)}
        return {**body, "state": "failed", **why}
