"""Documents and segments in the JetStream of one domain: small values are the last message of a subject, large ones
objects.

processes/regions/west.json     subject FLEET.doc.processes.regions.west%2Ejson; FLEET.at.DOMAIN.doc... in a domain
a segment of 3 MB               JetStream's object store; its subject has only the name
"""

from __future__ import annotations

import uuid
from typing import Any
from urllib.parse import quote, unquote

from godwit.storage.nats_server import HUB, NatsServer, Question, T

#: larger values go into the object store (servers take messages of 1 MB unless told otherwise)
MOST_BYTES = 250_000
_LARGE = "Godwit-Large"
WRONG_LAST_SEQUENCE = 10071


class NatsDocuments:
    """See `objects.Objects`. Subjects and buckets of two domains differ: what is published crosses leaf links."""

    def __init__(self, server: NatsServer, domain: str) -> None:
        self._server, self._domain, self.root = server, domain, f"{server.url}/{server.prefix}"
        self._stream, self._prefix = f"{server.prefix}-doc", f"{subject_prefix(server, domain)}.doc"
        self._bucket_name = f"{server.prefix}-large" if domain == HUB else f"{server.prefix}-{domain}-large"
        self._made = False
        self._bucket: Any = None
        #: folder -> its names, as they were listed last
        self._listed: dict[str, list[str]] = {}

    def get(self, name: str) -> bytes:
        data, large = self._message(name)
        if large is None:
            return data
        bucket = self._large()
        found = self._request(lambda _: bucket.get(large))
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
        self._request(lambda js: js.purge_stream(self._stream, subject=self._subject(name)))
        if large is not None:
            bucket = self._large()
            self._request(lambda _: bucket.delete(large))

    def names(self, folder: str) -> list[str]:
        """While a domain behind a leaf link is away, as they were listed last: a region's names only ever grow."""
        try:
            self._listed[folder] = found = self._request(lambda js: self.list_names(js, folder))
        except OSError:
            if folder not in self._listed:
                raise
            return self._listed[folder]
        return found

    def below(self, folder: str) -> list[str]:
        skip = len(self._prefix) + 1
        found = self._request(lambda js: self._subjects(js, folder))
        return [unquote(subject[skip:].replace(".", "/")) for subject in found]

    # --- on the loop's thread

    async def list_names(self, js: Any, folder: str) -> list[str]:
        skip = len(self._subject(folder)) + 1
        found = await self._subjects(js, folder)
        return sorted({unquote(subject[skip:].partition(".")[0]) for subject in found})

    async def _subjects(self, js: Any, folder: str) -> list[str]:
        from nats.js.errors import NotFoundError

        wanted = f"{self._subject(folder)}.>"
        try:
            info = await js.stream_info(self._stream, subjects_filter=wanted)
        except NotFoundError:
            return []
        return list(info.state.subjects or {})

    async def last(self, js: Any, name: str) -> tuple[bytes, str | None]:
        """What is kept under a name: the value, or the object that holds it."""
        from nats.js.errors import NotFoundError

        try:
            found = await js.get_last_msg(self._stream, self._subject(name))
        except NotFoundError:
            raise FileNotFoundError(name) from None
        return bytes(found.data or b""), (found.headers or {}).get(_LARGE)

    # --- the server

    def _request(self, question: Question[T]) -> T:
        return self._server.request(question, self._domain)

    def _subject(self, name: str) -> str:
        parts = [quote(part, safe="-_=").replace(".", "%2E") for part in name.split("/")] if name else []
        return ".".join([self._prefix, *parts])

    def _message(self, name: str) -> tuple[bytes, str | None]:
        found = self._request(lambda js: self._last_or_none(js, name))
        if found is None:
            raise FileNotFoundError(name)
        return found

    async def _last_or_none(self, js: Any, name: str) -> tuple[bytes, str | None] | None:
        """(FileNotFoundError is an OSError, as is a server that is away.)"""
        try:
            return await self.last(js, name)
        except FileNotFoundError:
            return None

    def _publish(self, name: str, data: bytes, headers: dict[str, str]) -> None:
        self._make()
        subject = self._subject(name)
        if len(data) > MOST_BYTES:
            large, bucket = uuid.uuid4().hex, self._large()
            self._request(lambda _: bucket.put(large, data))
            headers, data = {**headers, _LARGE: large}, b""
        self._request(lambda js: js.publish(subject, data, stream=self._stream, headers=dict(headers)))

    def _large(self) -> Any:
        if self._bucket is None:
            from nats.js.errors import NotFoundError

            try:
                self._bucket = self._request(lambda js: js.object_store(self._bucket_name))
            except NotFoundError:
                self._bucket = self._request(lambda js: js.create_object_store(self._bucket_name))
        return self._bucket

    def _make(self) -> None:
        """The stream, before the first value is put: who only reads makes none."""
        if self._made:
            return
        from nats.js.api import StorageType, StreamConfig

        config = StreamConfig(
            name=self._stream,
            subjects=[f"{self._prefix}.>"],
            storage=StorageType.FILE if self._server.file else StorageType.MEMORY,
            max_msgs_per_subject=1,
        )
        self._request(lambda js: js.add_stream(config))
        self._made = True


def subject_prefix(server: NatsServer, domain: str) -> str:
    """Of a domain's subjects: what a leaf node's users need to publish is `FLEET.at.DOMAIN.>`."""
    return server.prefix if domain == HUB else f"{server.prefix}.at.{domain}"
