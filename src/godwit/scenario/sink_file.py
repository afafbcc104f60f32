"""The sinks of a fleet of processes, as a file names them: `godwit coordinator --sinks FILE`."""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from godwit.delivery.sinks.base import ResultSink
from godwit.errors import ConfigError
from godwit.scenario.connectors import SinkSpec
from godwit.validation import worded
from godwit.yaml_files import read_yaml

_SPECS = TypeAdapter(dict[str, SinkSpec])


def sinks_of_queries(file: Path) -> dict[str, list[ResultSink]]:
    """A file that says where results of queries go, as scenarios do: `busy: {parquet: out/busy}`."""
    read = read_yaml(file)
    if not isinstance(read, dict):
        msg = f"{file} names no query; write `busy: {{parquet: out/busy}}`"
        raise ConfigError(msg)
    try:
        specs = _SPECS.validate_python(read)
    except ValidationError as wrong:
        msg = f"{file}: {worded(wrong.errors(), SinkSpec)[0]}"
        raise ConfigError(msg) from wrong
    return {query: spec.sinks(file.resolve().parent) for query, spec in specs.items()}
