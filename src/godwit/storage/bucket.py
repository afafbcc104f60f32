"""Objects of a cloud's bucket, through obstore: s3://, gs://, az:// (abfs://); any server that speaks S3.

    s3://bucket/prefix?endpoint=http://127.0.0.1:8333      keys, regions and more from the environment (AWS_...)

Put-if-absent is the lock of everything (`If-None-Match: *`): S3, GCS, Azure, MinIO, SeaweedFS have it.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlparse

from godwit.errors import ConfigError, StoreAwayError
from godwit.storage.urls import shown

log = logging.getLogger(__name__)
T = TypeVar("T")

SCHEMES = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss")
#: for how long a server that is away is waited for; by a process that starts, before it says so (seconds)
PATIENCE, FIRST = 600, 5


class BucketAwayError(StoreAwayError, OSError):
    """A bucket does not answer, or refuses what was asked; what it was needed for may be tried again."""


class Bucket:
    """See `objects.Objects`."""

    def __init__(self, url: str) -> None:
        import obstore
        from obstore.exceptions import AlreadyExistsError, BaseError
        from obstore.store import from_url

        self.root, self._obs = url.partition("?")[0].rstrip("/"), obstore
        self._fault: type[Exception] = BaseError
        self._exists: type[Exception] = AlreadyExistsError
        options = {key: values[-1] for key, values in parse_qs(urlparse(url).query).items()}
        plain = options.get("endpoint", "").startswith("http://")

        def opened(patience: float) -> Any:
            pauses = {"init_backoff": timedelta(milliseconds=50), "max_backoff": timedelta(seconds=1), "base": 2}
            retry = {"max_retries": 10_000, "retry_timeout": timedelta(seconds=patience), "backoff": pauses}
            more: dict[str, Any] = {"client_options": {"allow_http": plain, "timeout": "30s"}, "retry_config": retry}
            return from_url(self.root, **{**options, **more})

        try:
            self._store: Any = opened(PATIENCE)
            first = opened(FIRST)
        except Exception as fault:
            msg = f"store '{shown(url)}' cannot be opened: {_line(fault)}; check bucket and options"
            raise ConfigError(msg) from fault
        self._look(first)

    def _look(self, first: Any) -> None:
        """Whether this user may look into the bucket, if it answers soon; one that does not is waited for later on,
        after a word about it."""
        try:
            try:
                for _ in self._obs.list(first, "processes", chunk_size=1):
                    break
            except (FileNotFoundError, self._fault) as fault:
                if not _is_missing(fault):
                    raise
                self._obs.put(first, "first", b"")  # (some servers make a bucket with its first object)
                self._obs.delete(first, "first")
        except (FileNotFoundError, self._fault) as fault:
            if _is_missing(fault) or _is_refusal(fault):
                raise ConfigError(self._told(fault)) from fault
            log.warning("%s; waiting for it up to %s s", self._told(fault), PATIENCE)

    def _told(self, fault: Exception) -> str:
        remedy = "check the bucket's name, the endpoint, and the keys in the environment (AWS_ACCESS_KEY_ID, ...)"
        return f"{self.root} cannot be used: {_line(fault)}; {remedy}"

    def _ask(self, what: Callable[..., T], *told: Any, **more: Any) -> T:
        """What goes wrong is the store's: whoever needed it goes on when the bucket answers again."""
        try:
            return what(self._store, *told, **more)
        except self._exists:
            raise
        except self._fault as fault:
            raise BucketAwayError(self._told(fault)) from fault

    def get(self, name: str) -> bytes:
        return self._ask(lambda store: bytes(self._obs.get(store, name).bytes()))

    def put(self, name: str, data: bytes) -> None:
        self._ask(self._obs.put, name, data)

    def create(self, name: str, data: bytes) -> bool:
        try:
            self._ask(self._obs.put, name, data, mode="create")
        except self._exists:
            return False
        return True

    def size(self, name: str) -> int:
        return int(self._ask(self._obs.head, name)["size"])

    def delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._ask(self._obs.delete, name)

    def names(self, folder: str) -> list[str]:
        found: Any = self._ask(self._obs.list_with_delimiter, folder or None)
        paths = [*found["common_prefixes"], *(one["path"] for one in found["objects"])]
        return sorted(path.rpartition("/")[2] for path in paths)

    def below(self, folder: str) -> Iterable[str]:
        def listed(store: Any) -> Any:
            return self._obs.list(store, folder or None).collect()

        return [str(one["path"]) for one in self._ask(listed)]


def _line(fault: Exception) -> str:
    """What the library says, without the tree of its insides that follows."""
    return (str(fault).strip() or type(fault).__name__).splitlines()[0]


def _is_missing(fault: Exception) -> bool:
    """Whether a server has answered that there is no such bucket."""
    return isinstance(fault, FileNotFoundError) or "status code: 404" in _line(fault)


def _is_refusal(fault: Exception) -> bool:
    """Whether a server has answered, and will not have this user: to wait does not help."""
    return type(fault).__name__ in ("PermissionDeniedError", "UnauthenticatedError") or "status code: 4" in _line(fault)
