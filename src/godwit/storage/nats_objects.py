"""Documents and segments in JetStream: small values are the last message of a subject, large ones objects.

processes/regions/west.json     subject FLEET.doc.processes.regions.west%2Ejson
a segment of 3 MB               JetStream's object store; its subject has only the name
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, unquote

from godwit.storage.nats_server import NatsServer

#: larger values go into the object store (servers take messages of 1 MB unless told otherwise)
MOST_BYTES = 250_000
_LARGE = "Godwit-Large"
WRONG_LAST_SEQUENCE = 10071


class NatsObjects:
    """See `objects.Objects`."""

    def __init__(self, server: NatsServer) -> None:
        self._server, self.root = server, f"{server.url}/{server.prefix}"
        self._stream, self._prefix = f"{server.prefix}-doc", f"{server.prefix}.doc"
        self._made = False
        self._bucket: Any = None

    def get(self, name: str) -> bytes:
        data, large = self._message(name)
        if large is None:
            return data
        bucket = self._large()
        found = self._server.ask(lambda _: bucket.get(large))
        return bytes(found.data or b"")

    def put(self, name: str, data: bytes) -> None:
        if len(data) > MOST_BYTES:
            self.delete(name)  # (with the large object that it may name)
        self._publish(name, data, {})

    def create(self, name: str, data: bytes) -> bool:
        from nats.js.errors import APIError

        try:
            self._publish(name, data, {"Nats-Expected-Last-Subject-Sequence": "0"})
        except APIError as refused:
            if refused.err_code == WRONG_LAST_SEQUENCE:
                return False
            raise
        return True

    def size(self, name: str) -> int:
        data, large = self._message(name)
        return len(data) if large is None else len(self.get(name))

    def delete(self, name: str) -> None:
        try:
            _, large = self._message(name)
        except FileNotFoundError:
            return
        self._server.ask(lambda js: js.purge_stream(self._stream, subject=self._subject(name)))
        if large is not None:
            self._forget(large)

    def names(self, folder: str) -> list[str]:
        skip = len(self._subject(folder)) + 1
        return sorted({unquote(subject[skip:].partition(".")[0]) for subject in self._subjects(folder)})

    def below(self, folder: str) -> Iterable[str]:
        skip = len(self._prefix) + 1
        return [unquote(subject[skip:].replace(".", "/")) for subject in self._subjects(folder)]

    # --- the server

    def _subject(self, name: str) -> str:
        parts = [quote(part, safe="-_=").replace(".", "%2E") for part in name.split("/")] if name else []
        return ".".join([self._prefix, *parts])

    def _subjects(self, folder: str) -> list[str]:
        self._make()
        wanted = f"{self._subject(folder)}.>"
        state = self._server.ask(lambda js: js.stream_info(self._stream, subjects_filter=wanted)).state
        return list(state.subjects or {})

    def _message(self, name: str) -> tuple[bytes, str | None]:
        from nats.js.errors import NotFoundError

        self._make()
        subject = self._subject(name)
        try:
            found = self._server.ask(lambda js: js.get_last_msg(self._stream, subject))
        except NotFoundError:
            raise FileNotFoundError(name) from None
        return bytes(found.data or b""), (found.headers or {}).get(_LARGE)

    def _publish(self, name: str, data: bytes, headers: dict[str, str]) -> None:
        self._make()
        subject = self._subject(name)
        if len(data) > MOST_BYTES:
            large, bucket = uuid.uuid4().hex, self._large()
            self._server.ask(lambda _: bucket.put(large, data))
            headers, data = {**headers, _LARGE: large}, b""
        self._server.ask(lambda js: js.publish(subject, data, stream=self._stream, headers=dict(headers)))

    def _large(self) -> Any:
        if self._bucket is None:
            from nats.js.errors import NotFoundError

            name = f"{self._server.prefix}-large"
            try:
                self._bucket = self._server.ask(lambda js: js.object_store(name))
            except NotFoundError:
                self._bucket = self._server.ask(lambda js: js.create_object_store(name))
        return self._bucket

    def _forget(self, large: str) -> None:
        bucket = self._large()
        self._server.ask(lambda _: bucket.delete(large))

    def _make(self) -> None:
        if self._made:
            return
        from nats.js.api import StorageType, StreamConfig

        config = StreamConfig(
            name=self._stream,
            subjects=[f"{self._prefix}.>"],
            storage=StorageType.FILE if self._server.file else StorageType.MEMORY,
            max_msgs_per_subject=1,
        )
        self._server.ask(lambda js: js.add_stream(config))
        self._made = True
