"""The command line under test: `call("explain", ...)` gives exit code, stdout and stderr."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from typer.testing import CliRunner, Result

from godwit.cli.main import app

Call = Callable[..., Result]


@pytest.fixture
def call() -> Call:
    runner = CliRunner()

    def call_(*arguments: object) -> Result:
        return runner.invoke(app, [str(argument) for argument in arguments])

    return call_
