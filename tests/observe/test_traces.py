"""Reconfigurations as OpenTelemetry spans, from the records of the history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from godwit.api.fleet import Fleet
from godwit.errors import ConfigError
from godwit.observe.traces import Traces

sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="godwit[otel] is not installed")


def exporting() -> tuple[Traces, Any]:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    memory, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    return Traces(provider), memory


def record(number: int, outcome: str = "committed", state: float | None = 0.05, **more: Any) -> dict[str, Any]:
    moved = {"instance": "q/1", "source": "a", "target": "b", "hops": 1, "step": "move", "bytes": 7, "seconds": state}
    phases = {"plan": 0.001, "publish": 0.002, "acknowledge": 0.02, **({} if state is None else {"state": state})}
    told = {"number": number, "at": 1000.0, "cause": "device t1 moved", "queries": ["q"], "epochs": [3], "reason": ""}
    return {**told, "contexts": {"Deploy": 2}, "migrations": [moved], "phases": phases, "outcome": outcome, **more}


def test_a_reconfiguration_is_a_span_with_its_phases_as_children() -> None:
    traces, memory = exporting()
    traces.tell(record(1, "running", None, phases={"plan": 0.001}))
    traces.tell(record(1, "committed", None))  # its state is still on its way
    assert memory.get_finished_spans() == ()
    traces.tell({**record(1), "at": 1000.5})
    traces.tell({**record(1), "at": 1000.6})  # (told twice)
    spans = {span.name: span for span in memory.get_finished_spans()}
    assert sorted(spans) == ["acknowledge", "plan", "publish", "reconfiguration", "state"]
    root = spans["reconfiguration"]
    assert all(span.parent.span_id == root.context.span_id for name, span in spans.items() if span is not root)
    assert root.attributes["godwit.cause"] == "device t1 moved"
    assert root.attributes["godwit.state.bytes"] == 7
    assert root.attributes["godwit.contexts.Deploy"] == 2
    assert spans["publish"].end_time == pytest.approx(1000e9, abs=1000)
    assert spans["state"].end_time - spans["state"].start_time == pytest.approx(50e6, abs=1000)
    assert root.start_time == spans["plan"].start_time
    assert root.end_time == spans["state"].end_time
    assert spans["state"].events[0].attributes["instance"] == "q/1"


def test_what_was_taken_back_is_an_error_and_what_never_ends_is_written_at_the_end() -> None:
    traces, memory = exporting()
    traces.tell(record(1, "reverted", reason="region west was lost"))
    traces.tell(record(1, "declined", state=0.0, reason="not worth it", migrations=[]))
    traces.tell(record(2, "committed", None))
    traces.stop()
    roots = [span for span in memory.get_finished_spans() if span.name == "reconfiguration"]
    assert [span.attributes["godwit.outcome"] for span in roots] == ["reverted", "declined", "committed"]
    assert [span.status.is_ok for span in roots] == [False, True, True]


def test_a_real_hand_over_is_traced(open_fleet: Callable[..., Fleet]) -> None:
    traces, memory = exporting()
    fleet = open_fleet()
    fleet.topology.load("sites: [{id: west, region: w}, {id: east, region: e}]\nlinks: [{from: west, to: east}]\n")
    fleet.history.follow(traces.tell)
    fleet.stream("passengers", "train string, boarded int, ts timestamp", device="train")
    fleet.device("t1", site="west", streams=["passengers"]).attach("east")
    fleet.process_available()
    causes = [s.attributes["godwit.cause"] for s in memory.get_finished_spans() if s.name == "reconfiguration"]
    assert any("t1" in cause for cause in causes)


def test_without_the_packages_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.sdk.resources", None)
    with pytest.raises(ConfigError, match=r"godwit\[otel\]"):
        Traces()
