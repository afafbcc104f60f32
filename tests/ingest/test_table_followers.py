"""Tables that follow a file or a database: what differs is a change, and nothing else is."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from godwit.api.fleet import Fleet
from godwit.api.tables import TableHandle
from godwit.control.commands import LoadTable
from godwit.errors import ConfigError, SourceError
from godwit.scenario.run import set_up
from godwit.scenario.spec import load_scenario
from tests.region.world import START, three_regions
from tests.waiting import until

SCHEMA = "id string, model string, seats int"
SCENARIOS = Path(__file__).parents[1] / "fixtures" / "scenarios" / "good"
POSTGRES = Path("/usr/lib/postgresql/15/bin")


@pytest.fixture
def table(open_fleet: Callable[..., Fleet]) -> Iterator[TableHandle]:
    fleet = open_fleet()
    fleet.topology.add(three_regions())
    yield fleet.table("vehicles", SCHEMA, key="id")
    fleet.stop()


def seats(table: TableHandle) -> dict[str, int]:
    return {row["id"]: row["seats"] for row in table.rows()}


def test_a_file_that_is_written_anew(table: TableHandle, tmp_path: Path) -> None:
    file = tmp_path / "vehicles.csv"
    file.write_text("id,model,seats,colour\nt1,a,4,red\nt2,b,5,blue\n")
    follower = table.follow_file(file, every=0.02)
    assert seats(table) == {"t1": 4, "t2": 5}
    assert follower.poll() == 0
    (tmp_path / "new").write_text("id,model,seats,colour\nt2,b,6,blue\nt3,c,7,red\n")
    os.replace(tmp_path / "new", file)
    assert until(lambda: seats(table) == {"t2": 6, "t3": 7})
    file.write_text("id,model,seats\nt2,b,many\n")
    with pytest.raises(SourceError, match="follows nothing any more"):
        until(lambda: bool(follower.check()), 20)
    with pytest.raises(ConfigError, match="must end with"):
        table.follow_file(tmp_path / "vehicles.xls")


def test_a_command_loads_a_file(table: TableHandle, tmp_path: Path) -> None:
    file = tmp_path / "vehicles.jsonl"
    file.write_text('{"id": "t1", "model": "a", "seats": 4}\n{"id": "t2", "model": "b", "seats": 5}\n')
    fleet = table._fleet
    fleet.control.execute(LoadTable("vehicles", str(file)))
    file.write_text('{"id": "t2", "model": "b", "seats": 6}\n')
    fleet.control.execute(LoadTable("vehicles", str(file)))
    assert seats(table) == {"t1": 4, "t2": 6}
    fleet.control.execute(LoadTable("vehicles", str(file), whole=True))
    assert seats(table) == {"t2": 6}
    with pytest.raises(SourceError, match="there is no reference table"):
        fleet.control.execute(LoadTable("vehicle", str(file)))


def test_a_scenario_with_a_table(open_fleet: Callable[..., Fleet]) -> None:
    scenario = load_scenario(SCENARIOS / "table.yaml")
    fleet = open_fleet()
    set_up(fleet, scenario, scenario.ground())
    fleet.push("readings", [{"sensor": "s1", "value": 21.0, "ts": START}])
    fleet.close_sources()
    fleet.process_available()
    assert [row["room"] for row in fleet.query("where").results().collect()] == ["hall"]
    fleet.stop()


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """A database server of its own, with a socket in a folder."""
    if not (POSTGRES / "initdb").exists() or shutil.which("runuser") is None:
        pytest.skip(f"there is no PostgreSQL in {POSTGRES}, or no runuser to start it as another user")
    pytest.importorskip("psycopg")
    folder = Path("/tmp") / f"godwit-pg-{os.getpid()}"
    folder.mkdir()
    shutil.chown(folder, "postgres")

    def run(*command: str) -> None:
        asked = ["runuser", "-u", "postgres", "--", str(POSTGRES / command[0]), *command[1:]]
        subprocess.run(asked, check=True, cwd=folder, stdout=subprocess.DEVNULL, timeout=120)

    try:
        run("initdb", "-D", str(folder / "data"), "-A", "trust", "-N")
        options = f"-k {folder} -c listen_addresses= -c fsync=off"
        run("pg_ctl", "-D", str(folder / "data"), "-w", "-o", options, "-l", str(folder / "log"), "start")
        yield f"host={folder} user=postgres dbname=postgres"
        run("pg_ctl", "-D", str(folder / "data"), "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_a_database(table: TableHandle, postgres: str) -> None:
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE TABLE vehicles (id text, model text, seats int, version bigserial, deleted boolean)")
        connection.execute("INSERT INTO vehicles (id, model, seats) VALUES ('t1', 'a', 4), ('t2', 'b', 5)")
        query = "SELECT id, model, seats, version, deleted FROM vehicles"
        follower = table.follow_postgres(postgres, query, version="version", listen="depot", every=30.0)
        assert seats(table) == {"t1": 4, "t2": 5}
        connection.execute("UPDATE vehicles SET seats = 9, version = nextval('vehicles_version_seq') WHERE id = 't2'")
        connection.execute(
            "UPDATE vehicles SET deleted = true, version = nextval('vehicles_version_seq') WHERE id = 't1'"
        )
        connection.execute("INSERT INTO vehicles (id, model, seats) VALUES ('t3', 'c', 1)")
        connection.execute("NOTIFY depot")
        assert until(lambda: seats(table) == {"t2": 9, "t3": 1})
        follower.check()
        connection.execute("NOTIFY depot")
        follower.stop()
