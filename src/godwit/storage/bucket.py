"""Objects of a cloud's bucket, through obstore: s3://, gs://, az:// (abfs://); any server that speaks S3.

    s3://bucket/prefix?endpoint=http://127.0.0.1:8333      keys, regions and more from the environment (AWS_...)

Put-if-absent is the lock of everything (`If-None-Match: *`): S3, GCS, Azure, MinIO, SeaweedFS have it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlparse

from godwit.errors import ConfigError

SCHEMES = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss")
#: for how long a server that is away is waited for (seconds)
PATIENCE = 600


class Bucket:
    """See `objects.Objects`."""

    def __init__(self, url: str) -> None:
        import obstore
        from obstore.store import from_url

        parts, self.root = urlparse(url), url.partition("?")[0].rstrip("/")
        options = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        plain = options.get("endpoint", "").startswith("http://")
        retry: Any = {"max_retries": 10_000, "retry_timeout": timedelta(seconds=PATIENCE)}
        retry["backoff"] = {"init_backoff": timedelta(milliseconds=50), "max_backoff": timedelta(seconds=1), "base": 2}
        more: dict[str, Any] = {"client_options": {"allow_http": plain, "timeout": "30s"}, "retry_config": retry}
        try:
            self._store: Any = from_url(self.root, **{**options, **more})
        except Exception as fault:
            msg = f"store '{url}' cannot be opened: {fault}"
            raise ConfigError(msg) from fault
        self._obs = obstore

    def get(self, name: str) -> bytes:
        return bytes(self._obs.get(self._store, name).bytes())

    def put(self, name: str, data: bytes) -> None:
        self._obs.put(self._store, name, data)

    def create(self, name: str, data: bytes) -> bool:
        from obstore.exceptions import AlreadyExistsError

        try:
            self._obs.put(self._store, name, data, mode="create")
        except AlreadyExistsError:
            return False
        return True

    def size(self, name: str) -> int:
        return int(self._obs.head(self._store, name)["size"])

    def delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._obs.delete(self._store, name)

    def names(self, folder: str) -> list[str]:
        found = self._obs.list_with_delimiter(self._store, folder or None)
        paths = [*found["common_prefixes"], *(one["path"] for one in found["objects"])]
        return sorted(path.rpartition("/")[2] for path in paths)

    def below(self, folder: str) -> Iterable[str]:
        return [str(one["path"]) for one in self._obs.list(self._store, folder or None).collect()]
