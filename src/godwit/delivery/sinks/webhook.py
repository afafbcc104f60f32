"""Results as HTTP requests. At least once: after a crash, or a response that got lost, the same requests come again.

Each request has a header `Idempotency-Key` that is the same in a repeat, so a receiver that remembers the keys it has
dealt with takes every row once.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from godwit.delivery.sinks.base import ResultBatch
from godwit.delivery.sinks.named_run import NamedRunSink
from godwit.errors import ConfigError, DeliveryError

if TYPE_CHECKING:
    import httpx


class WebhookSink(NamedRunSink):
    """POSTs {"query", "region", "number", "part", "rows"} to `url`, up to `rows` rows at a time, in order.

    `secret`: requests carry `X-Godwit-Signature: sha256=HEX`, the HMAC of the body. A response that is not 2xx is a
    failure: the sink is tried again after a pause, from there on.
    """

    exactly_once: ClassVar[bool] = False

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        secret: str | None = None,
        rows: int = 1000,
        timeout: float = 30.0,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            msg = f"webhook '{url}': not an address; write http://... or https://..."
            raise ConfigError(msg)
        import httpx

        self._url, self._headers, self._secret = url, dict(headers or {}), secret
        self._rows, self._timeout = rows, timeout
        self._client: httpx.Client | None = None
        self.name = f"webhook:{httpx.URL(url).copy_with(username=None, password=None, query=None)}"

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client = None

    def write(self, batch: ResultBatch) -> None:
        import httpx

        self._client = self._client or httpx.Client(headers=self._headers, timeout=self._timeout)
        for part, rows in batch.pieces(self._rows):
            told = {"query": batch.name, "region": batch.region, "number": batch.number, "part": part, "rows": rows}
            body = json.dumps(told).encode()
            headers = {
                "Content-Type": "application/json",
                "Idempotency-Key": f"{self._run}.{batch.scope}.{batch.number}.{part}",
            }
            if self._secret is not None:
                digest = hmac.new(self._secret.encode(), body, hashlib.sha256).hexdigest()
                headers["X-Godwit-Signature"] = f"sha256={digest}"
            response = self._client.post(self._url, content=body, headers=headers)
            if not response.is_success:
                msg = f"{self.name} has answered {response.status_code}: {response.text[:200]}"
                raise DeliveryError(msg)
