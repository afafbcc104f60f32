"""`Fleet.connect` and `godwit --server`: a fleet behind a server, used as if it were here."""

from __future__ import annotations

import datetime as dt
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from godwit.api.fleet import Fleet
from godwit.cli.main import app
from godwit.cli.remote import server_of
from godwit.client.pages import newest
from godwit.client.remote import RemoteCommand, RemoteFleet, RemoteQuery
from godwit.errors import ConfigError, DeploymentError, SourceError, SqlError, UnknownNameError
from tests.server.conftest import Running
from tests.waiting import until

SQL = "SELECT train, boarded, ts FROM passengers WHERE boarded > 1"
Serve = Callable[..., Running]


def row(n: int) -> dict[str, Any]:
    return {"train": "t1", "boarded": n, "ts": dt.datetime(2026, 1, 1, 0, 0, n, tzinfo=dt.UTC)}


def declared(fleet: RemoteFleet) -> Any:
    fleet.stream("passengers", "train string, boarded int, ts timestamp", device="train")
    return fleet.device("t1", site="west", streams=["passengers"])


def test_the_methods_of_a_fleet_work_over_a_server(serve: Serve) -> None:
    server = serve()
    with Fleet.connect(server.url, token="admin") as fleet:
        t1 = declared(fleet)
        query = fleet.submit(SQL, "busy")
        assert isinstance(query, RemoteQuery)
        assert fleet.queries == ["busy"]
        assert "Filter" in fleet.explain(SQL)
        assert "passengers" in query.explain()
        came: list[int] = []
        following = fleet.subscribe("busy")
        thread = threading.Thread(target=lambda: came.extend(next(following)["boarded"] for _ in range(4)), daemon=True)
        thread.start()
        assert t1.push([row(1), row(2)], sequence=1)
        assert not t1.push([row(1), row(2)], sequence=1)
        assert "t1" in fleet.explain_change(["device t1 -> east"])
        assert fleet.change(["device t1 -> east"]) is None
        assert t1.push(pa.Table.from_pylist([row(3)]), sequence=2)
        assert fleet.push("passengers", row(4), device="t1", sequence=3)
        assert until(lambda: sorted(r["boarded"] for r in fleet.results("busy")) == [2, 3, 4])
        assert isinstance(fleet.alter("busy", SQL.replace("> 1", "> 4")), RemoteQuery)
        assert t1.push([row(4), row(5)], sequence=4)
        sent = fleet.withdraw("busy", wait=False) if until(lambda: len(fleet.query("busy").changes()) >= 4) else None
        assert isinstance(sent, RemoteCommand)
        assert until(lambda: sent.state()["state"] == "done")
        thread.join(20)
        assert sorted(came) == [2, 3, 4, 5]
        assert fleet.status()["epoch"] >= 5
        assert any("t1" in json.dumps(story) for story in fleet.history.read())
        assert set(fleet.topology.now.sites) == {"west", "east", "cloud"}


def test_pushes_that_do_not_wait_come_in_order_over_a_server(serve: Serve) -> None:
    server = serve()
    with RemoteFleet(server.url, "admin") as fleet:
        declared(fleet)
        query = fleet.submit(SQL, "busy")
        with fleet.pipeline(window=3) as pipeline:
            for number in range(2, 12):
                pipeline.push("passengers", row(number), device="t1", sequence=number)
        assert fleet.push_many("passengers", [(11, row(11)), (12, row(12))], "t1") == 1
        dead: list[dict[str, Any]] = []
        assert not fleet.push("passengers", row(12), device="t1", sequence=12, dead=dead)
        assert fleet.push("passengers", [{**row(13), "boarded": "many"}], device="t1", sequence=13, dead=dead)
        assert "many" in str(dead)
        assert until(lambda: [r["boarded"] for r in query.results()] == list(range(2, 13)))
        refused = pytest.raises(SourceError, match="'t1' for 'nothing' from sequence number 14 on were not taken")
        with refused, fleet.pipeline() as pipeline:
            pipeline.push("nothing", row(14), device="t1", sequence=14)


def test_refusals_are_the_errors_that_a_fleet_here_would_raise(serve: Serve) -> None:
    server = serve()
    with RemoteFleet(server.url, "admin") as fleet:
        declared(fleet)
        with pytest.raises(UnknownNameError, match="nothing"):
            fleet.submit("SELECT nothing FROM passengers", "q")
        with pytest.raises(SqlError):
            fleet.explain("SELECT")
        with pytest.raises(DeploymentError, match="no query 'none'"):
            fleet.query("none")
        with pytest.raises(DeploymentError, match="no query 'none'"):
            fleet.migrate("none", keys="*", to="west")
        for dry_run in (True, False):
            with pytest.raises(DeploymentError, match="no query 'none'"):
                fleet.replace("none", SQL, dry_run=dry_run)
            with pytest.raises(DeploymentError, match="no query 'none'"):
                fleet.replan("none", order="a JOIN b", dry_run=dry_run)
    with RemoteFleet(server.url, "read") as reader, pytest.raises(ConfigError, match="needs 'operate'"):
        reader.submit(SQL, "q")
    with pytest.raises(ConfigError, match="cannot be reached"):
        RemoteFleet("http://127.0.0.1:1")
    with pytest.raises(ConfigError, match="not a server's address"):
        RemoteFleet("fleet.example")


def test_the_command_line_takes_a_server(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server, run = serve(), CliRunner()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("GODWIT_TOKEN", "admin")
    monkeypatch.setenv("GODWIT_SERVER", "")  # (restored afterwards, whatever the commands set)
    with RemoteFleet(server.url, "admin") as fleet:
        t1 = declared(fleet)
        told = run.invoke(app, ["--server", server.url, "submit", "busy", SQL])
        assert told.exit_code == 0, told.output
        t1.push([row(2)])
        assert until(lambda: fleet.results("busy"))
    monkeypatch.setenv("GODWIT_SERVER", server.url)
    assert run.invoke(app, ["change", "device t1 -> east"]).output == "done\n"
    assert json.loads(run.invoke(app, ["results", "busy"]).output)["boarded"] == 2
    assert json.loads(run.invoke(app, ["status"]).output)["queries"][0]["name"] == "busy"
    refused = run.invoke(app, ["submit", "bad", "SELECT nothing FROM passengers"])
    assert refused.exit_code == 1
    assert "nothing" in refused.output
    text = SQL.replace("boarded > 1", "boarded > 5")
    for flags in (["--dry-run"], []):
        told = run.invoke(app, ["replace", "busy", text, *flags])
        assert told.output == "keeps no state: rows from the switch on are answered by the new text\n"
    assert "joins nothing" in run.invoke(app, ["replan", "busy", "--order", "a JOIN b", "--dry-run"]).output
    assert run.invoke(app, ["withdraw", "busy"]).output == "done\n"
    with RemoteFleet(server.url, "admin") as fleet:
        lines = fleet.table("lines", "id int, name string", key="id")
    file = tmp_path / "lines.csv"
    file.write_text("id,name\n1,Airport\n2,Beach\n")
    assert run.invoke(app, ["table", "lines", str(file)]).output == "2 rows changed\n"
    file.write_text("id,name\n1,Airport\n")
    assert run.invoke(app, ["table", "lines", str(file), "--whole"]).output == "1 rows changed\n"
    with RemoteFleet(server.url, "admin") as fleet:
        assert [row["name"] for row in fleet.known_table(lines.name).rows()] == ["Airport"]
    assert run.invoke(app, ["replan", "none", "--order", "a JOIN b"]).exit_code == 1


def test_a_flag_goes_before_the_environment_and_that_before_the_profile(tmp_path: Path) -> None:
    (tmp_path / "godwit").mkdir()
    file = tmp_path / "godwit" / "profile.yaml"
    file.write_text("server: http://profile\ntoken: t\n")
    home = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert server_of("http://flag", {**home, "GODWIT_SERVER": "http://env"}) == "http://flag"
    assert server_of(None, {**home, "GODWIT_SERVER": "http://env"}) == "http://env"
    assert server_of(None, home) == "http://profile"
    assert server_of(None, {"XDG_CONFIG_HOME": str(tmp_path / "none")}) is None
    file.write_text("[1]")
    with pytest.raises(ConfigError, match="not a profile"):
        server_of(None, home)


def test_of_results_that_replace_each_other_the_newest_counts() -> None:
    def change(key: str, n: int, version: int, gone: bool = False) -> dict[str, Any]:
        at = {"at": "2026-01-01T00:00:00+00:00", "n": version}
        return {"k": key, "n": n, "__version": at, "__deleted": gone}

    rows = [change("a", 1, 1), change("a", 3, 3), change("a", 2, 2), change("b", 1, 1), change("b", 1, 2, True)]
    assert newest(rows, ["k"]) == [{"k": "a", "n": 3}]
    assert newest([{"n": 1}], None) == [{"n": 1}]
