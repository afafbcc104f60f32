"""What of a fleet's folder is damaged: every record, document and file is read and compared with its checksum.

A finding says what would mend it (`repair.py`). Files that are not the fleet's are named and left alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from godwit.delivery.sinks.outputs import lost
from godwit.errors import StateError
from godwit.ids import RegionId
from godwit.maintenance.integrity import Finding, Remedy, logs, sequences
from godwit.protocol.inputs import peer_log
from godwit.replan.change_record import PLAN_CHANGES
from godwit.storage import names
from godwit.storage.log import Record
from godwit.storage.state_memory import remembered
from godwit.storage.store import Store

#: what may lie in a fleet's folder
OURS = {
    *(names.CONTROL, names.SNAPSHOTS, names.REGIONS, names.SINKS, names.HISTORY, "lock", "ingest", "landing", "tables"),
    *(
        f"{name}.json"
        for name in (
            names.ALIASES,
            names.VERSIONS,
            names.RELAYS,
            names.DEAD_LETTERS,
            names.UNKNOWN_COLUMNS,
            names.REMOVING,
        )
    ),
    *("dead_letters.jsonl", "dead_letters.old.jsonl", "damaged", names.COMMANDS, names.ANSWERS),
    *(names.REPORTS, names.PROCESSES, "run", "plans", f"{PLAN_CHANGES}.json"),
}
#: in a log's folder, beside its records
BESIDE = {"data", "folded.json"}


def findings(store: Store) -> list[Finding]:
    """Everything that is wrong, in the order of names; nothing is changed."""
    if not store.disk.exists(names.CONTROL):
        msg = f"{store.disk.root} is not a fleet's folder: it has no control log; give the folder it was opened with"
        raise StateError(msg)
    found: list[Finding] = []
    for part in (_documents, _sinks, _history, _sources, _commits, _messages, _kept, _foreign):
        found += part(store)
    found += _epochs(store)
    if not any(finding.severity == "error" and "/commits/" in finding.where for finding in found):
        found += _safely(store)
    return sorted(found, key=lambda f: f.where)


def _safely(store: Store) -> Iterator[Finding]:
    """Whether the logs fit together, as far as they can be read."""
    try:
        yield from sequences(store)
    except StateError:
        return  # a record that cannot be read is named already


def _epochs(store: Store) -> Iterator[Finding]:
    damaged = list(_records(store, names.CONTROL, "none", []))
    yield from damaged
    whole = not damaged and store.floor(names.CONTROL) == 1
    for folder in (names.SNAPSHOTS, names.STANDINGS):
        for number in store.document_numbers(folder):
            yield from _document(store, f"{folder}/{names.number(number)}", "drop" if whole else "none")


def _documents(store: Store) -> Iterator[Finding]:
    for name in (names.ALIASES, names.VERSIONS, names.RELAYS, names.REMOVING):
        yield from _document(store, name, "none")
    yield from _document(store, names.DEAD_LETTERS, "drop")
    yield from _document(store, names.UNKNOWN_COLUMNS, "drop")


def _document(store: Store, name: str, remedy: Remedy) -> Iterator[Finding]:
    try:
        store.get_document(name)
    except StateError as fault:
        yield Finding("error", f"{name}.json", _brief(fault), remedy)


def _records(
    store: Store, log: str, remedy: Remedy, into: list[Record], shapes: Iterable[str] = (), after: int = 0
) -> Iterator[Finding]:
    """What is damaged in a log; the records past a number that can be read are added to `into`."""
    told: set[str] = set()
    try:
        numbers = store.numbers(log)
    except StateError as fault:
        yield _fault(store, log, fault, remedy, shapes)
        return
    for number in numbers:
        try:
            record = store.read_record(log, number)
        except StateError as fault:
            if str(fault) not in told:  # (a chunk that cannot be read is said once)
                told.add(str(fault))
                yield _fault(store, log, fault, remedy, shapes)
            continue
        if record is not None and number > after:
            into.append(record)


def _fault(store: Store, log: str, fault: StateError, remedy: Remedy, shapes: Iterable[str]) -> Finding:
    """The file is the first word of the message."""
    file = store.reference(str(fault).partition(".log")[0])
    return Finding("error", f"{file}.log" if file.startswith(log) else log, _brief(fault), remedy, frozenset(shapes))


def _sinks(store: Store) -> Iterator[Finding]:
    for name in names.sink_positions(store.disk):
        try:
            saved = store.get_document(name)
        except StateError as fault:
            yield Finding("error", f"{name}.json", f"{_brief(fault)}: where the sink stood is not known", "redeliver")
            continue
        gone = None if saved is None else lost(saved["sink"], saved["state"])
        if gone is not None:
            yield Finding("error", f"{name}.json", gone, "redeliver")


def _history(store: Store) -> Iterator[Finding]:
    for number, line in enumerate(store.read_lines(names.HISTORY), start=1):
        try:
            json.loads(line)
        except ValueError:
            yield Finding(
                "warning", names.HISTORY, f"line {number} is cut off or damaged; readers pass it over", "drop"
            )
            return


def _sources(store: Store) -> Iterator[Finding]:
    for region, stream in names.sources(store.disk):
        log, records = names.source_log(region, stream), list[Record]()
        yield from _document(store, f"{log}/folded", "none")
        yield from _records(store, log, "none", records)
        for record in records:
            if record["segment"] is not None:
                yield from _segment(store, record["segment"], "none")


def _commits(store: Store) -> Iterator[Finding]:
    for region, shape in names.shapes(store.disk):
        records = list[Record]()
        damaged = list(_records(store, names.commit_log(region, shape), "replay", records, [shape]))
        yield from damaged
        for record in records:
            for segment in (*record["results"], *(s for _, s in record["late"])):
                yield from _segment(store, segment, "replay", [shape])
        memory = None if damaged else remembered(None, records)
        for one in () if memory is None else memory.segments():
            yield from _segment(store, one.to_json(), "replay", [shape])


def _messages(store: Store) -> Iterator[Finding]:
    """Rows for other regions, as far as these have not read them."""
    for region, shape in names.shapes(store.disk):
        for receiver in names.receivers(store.disk, region, shape):
            taken, records = _taken(store, region, shape, receiver), list[Record]()
            log = names.outbox_log(region, shape, receiver)
            yield from _records(store, log, "replay", records, [shape], after=taken)
            for record in records:
                for _, _, segment in record["sent"]:
                    yield from _segment(store, segment, "replay", [shape])


def _taken(store: Store, region: str, shape: str, receiver: str) -> int:
    """How far a region has read what another one sent; 0 if its commits cannot be read."""
    try:
        newest = store.log(names.commit_log(receiver, shape)).newest()
    except StateError:
        return 0  # named already
    return 0 if newest is None else int(newest["positions"].get(peer_log(RegionId(region)), 0))


def _kept(store: Store) -> Iterator[Finding]:
    for region, shape in names.shapes(store.disk):
        records = list[Record]()
        yield from _records(store, names.kept_log(region, shape), "replay", records, [shape])
        for record in records:
            for segment in (*record["results"], *record["late"]):
                yield from _segment(store, segment, "replay", [shape])


def _segment(store: Store, segment: Any, remedy: Remedy, shapes: Iterable[str] = ()) -> Iterator[Finding]:
    for file, known in zip(segment["files"], segment["sums"], strict=True):
        try:
            store.verify(file, known)
        except StateError as fault:
            yield Finding("error", file, _brief(fault), remedy, frozenset(shapes))


def _foreign(store: Store) -> Iterator[Finding]:
    for name in store.disk.names(""):
        if name not in OURS and not name.endswith(".tmp"):
            yield Finding("note", name, "it is not godwit's, and is ignored")
    for log in logs(store):
        for name in store.disk.names(log):
            known = name in BESIDE or names.chunk_first(name) is not None
            if not known and not name.endswith(".tmp"):
                yield Finding("note", f"{log}/{name}", "it is not godwit's, and is ignored")


def _brief(fault: StateError) -> str:
    """The part of a message that says what is wrong: where it is, and what to do, is said beside it."""
    text = str(fault).partition(";")[0]
    for word in (" is ", " has ", " was ", " cannot "):
        if word in text:
            return "it" + text[text.index(word) :]
    return text
