"""Results as they come. Server-sent events say that there are new ones; the pages, read with a cursor, hold them.

So nothing is missed or repeated when a connection drops, or when the server lets a slow subscriber go.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx

from godwit.client.http import Http, refusal
from godwit.client.pages import pages

#: between attempts to connect again (seconds)
AGAIN = 0.5


def subscribed(http: Http, path: str, from_now: bool) -> Iterator[dict[str, Any]]:
    """Rows of a query, until the caller stops asking."""
    cursor = [behind for _, behind in pages(http, path)][-1] if from_now else None
    while True:
        try:
            with http.client.stream("GET", f"{path}/live", timeout=httpx.Timeout(30.0)) as response:
                if not response.is_success:
                    response.read()
                    raise refusal(response)
                for line in response.iter_lines():
                    if line.startswith("event: lagged"):
                        break
                    if line.startswith((":", "data:")):
                        for rows, behind in pages(http, path, cursor):
                            cursor = behind
                            yield from rows
        except httpx.TransportError:
            pass  # the server was restarted, or the network is gone for a moment
        time.sleep(AGAIN)


def events(http: Http, path: str) -> Iterator[dict[str, Any]]:
    """Messages of a stream of events; what comes while a connection is lost is not repeated."""
    while True:
        try:
            with http.client.stream("GET", path, timeout=httpx.Timeout(30.0)) as response:
                if not response.is_success:
                    response.read()
                    raise refusal(response)
                for line in response.iter_lines():
                    if line.startswith("data:"):
                        yield json.loads(line[5:])
        except httpx.TransportError:
            pass
        time.sleep(AGAIN)
