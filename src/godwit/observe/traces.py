"""Reconfigurations as OpenTelemetry traces (extra `otel`): a span each, with its phases as children.

Made from the records of the history when they are complete, so that nothing runs beside a reconfiguration. What is
exported, and where to, is said by OpenTelemetry's own environment variables (OTEL_EXPORTER_OTLP_ENDPOINT, ..).
"""

from __future__ import annotations

from typing import Any

from godwit.errors import ConfigError

#: a reconfiguration whose state never arrives is given up when this number of newer ones wait
MOST = 200
_FINAL = ("committed", "reverted", "declined", "failed")


class Traces:
    """Told of every record of the history, also of repeated ones."""

    def __init__(self, provider: Any = None) -> None:
        """`provider`: a TracerProvider; None: one that exports by OTLP over HTTP, as the environment says."""
        try:
            from opentelemetry import trace
        except ImportError as error:
            msg = "traces need OpenTelemetry; install godwit[otel]"
            raise ConfigError(msg) from error
        self._trace = trace
        self._provider = provider or _exporting()
        self._tracer = self._provider.get_tracer("godwit")
        #: number -> when it was first told of, and its newest record
        self._open: dict[int, tuple[float, dict[str, Any]]] = {}
        self._done: dict[int, None] = {}

    def tell(self, record: dict[str, Any]) -> None:
        number = record["number"]
        if record["outcome"] in ("declined", "failed"):  # (they have the number of the one before them)
            self._write(record["at"], record)
            return
        if number in self._done:
            return
        at, _ = self._open.get(number, (record["at"], None))
        self._open[number] = (at, record)
        waits = any(moved["seconds"] is None for moved in record["migrations"])
        if record["outcome"] in _FINAL and not waits:
            self._end(number)
        for old in list(self._open)[:-MOST]:
            self._end(old)

    def stop(self) -> None:
        """Write what is not complete, and all that is not exported yet."""
        for number in list(self._open):
            self._end(number)
        self._provider.shutdown()

    def _end(self, number: int) -> None:
        self._write(*self._open.pop(number))
        self._done[number] = None
        for old in list(self._done)[:-MOST]:
            del self._done[old]

    def _write(self, published: float, record: dict[str, Any]) -> None:
        """The record was first written when it was published: planning came before that, everything else began then."""
        phases = record.get("phases") or {}
        before = {name: phases[name] for name in ("plan", "publish") if name in phases}
        begin = published - sum(before.values())
        spans, at = [], begin
        for name, seconds in before.items():
            spans.append((name, at, at + seconds))
            at += seconds
        spans += [(name, published, published + s) for name, s in phases.items() if name not in before]
        end = max((ended for _, _, ended in spans), default=published)
        span = self._tracer.start_span("reconfiguration", start_time=_ns(begin), attributes=_attributes(record))
        within = self._trace.set_span_in_context(span)
        for name, began, ended in spans:
            child = self._tracer.start_span(name, within, start_time=_ns(began))
            for moved in record["migrations"] if name == "state" else ():
                child.add_event("state", {k: v for k, v in moved.items() if v is not None}, _ns(ended))
            child.end(_ns(ended))
        if record["outcome"] in ("reverted", "failed"):
            span.set_status(self._trace.StatusCode.ERROR, record["reason"])
        span.end(_ns(end))


def _attributes(record: dict[str, Any]) -> dict[str, Any]:
    moved = record["migrations"]
    told = {
        "godwit.number": record["number"],
        "godwit.cause": record["cause"],
        "godwit.outcome": record["outcome"],
        "godwit.reason": record["reason"],
        "godwit.queries": list(record["queries"]),
        "godwit.epochs": list(record["epochs"]),
        "godwit.state.instances": len(moved),
        "godwit.state.bytes": sum(one["bytes"] or 0 for one in moved),
    }
    return told | {f"godwit.contexts.{kind}": count for kind, count in (record.get("contexts") or {}).items()}


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)


def _exporting() -> Any:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        msg = "traces need OpenTelemetry's SDK and exporter; install godwit[otel]"
        raise ConfigError(msg) from error
    provider = TracerProvider(resource=Resource.create({"service.name": "godwit"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider
