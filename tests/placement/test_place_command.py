"""`godwit place`: files in, plan and reasons out."""

import json

import pytest
from typer.testing import CliRunner

from godwit.cli.main import app
from godwit.errors import DataError
from godwit.placement.cost_models.parametric import ParametricModel
from godwit.placement.cost_models.simulate import simulate
from godwit.placement.problem.files import read_problem

runner = CliRunner()

PROBLEM = """
workflow:
  name: wildfire
  operators:
    - {name: read, work: 1, cpu: 1}
    - {name: detect, work: 8, cpu: 2, platforms: [flink, spark]}
    - {name: alert, work: 1, cpu: 1}
  edges:
    - {source: read, target: detect, mbps: 8}
    - {source: detect, target: alert, mbps: 0.1}
network:
  sites:
    - {name: tower, platforms: [minifi], mips: 5000, cpu: 4, region: forest}
    - {name: hub, platforms: [flink], mips: 20000, cpu: 4, region: forest}
    - {name: cloud, platforms: [flink, spark], mips: 400000, kind: CLOUD, region: far}
  links:
    - {a: tower, b: hub, latency_ms: 3, mbps: 100}
    - {a: hub, b: cloud, latency_ms: 30, mbps: 1000}
root:
  read: {site: tower}
  detect: {site: cloud, platform: flink}
  alert: {site: tower}
constraints:
  pinned: {read: [tower]}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "problem.yaml"
    path.write_text(PROBLEM)
    return path


def test_json_holds_plan_front_proof_and_reasons(file):
    result = runner.invoke(app, ["place", str(file), "-o", "json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["plan"]["detect"] == {"site": "hub", "platform": "flink"}
    assert document["cost"] <= document["root"]["cost"]
    assert document["gap"] == 0.0
    assert document["front"]
    assert {"operator": "detect", "site": "hub", "platform": "flink"} in document["actions"]
    assert any("proven optimal" in line for line in document["explanation"])


def test_auto_writes_json_into_a_pipe(file):
    assert json.loads(runner.invoke(app, ["place", str(file)]).stdout)["algorithm"] == "auto"


def test_table(file):
    result = runner.invoke(app, ["place", str(file), "-o", "table"])
    assert result.exit_code == 0, result.output
    for words in ("plan by auto", "detect", "critical", "deployed", "proposed", "proven optimal"):
        assert words in result.output


def test_standard_input_and_weights():
    result = runner.invoke(app, ["place", "-", "--weights", "0.1,0.7,0.1,0.1", "-a", "heuristic"], input=PROBLEM)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["throughput_ktps"] > 0


def test_a_trained_model(file, tmp_path):
    problem = read_problem(file)
    rows = simulate(problem.workflow, problem.network, 50)
    ParametricModel.train(rows).save(tmp_path / "model.json")
    result = runner.invoke(app, ["place", str(file), "--model", str(tmp_path / "model.json")])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing.yaml"], "cannot read missing.yaml: No such file"),
        (["FILE", "-a", "magic"], "no placement search 'magic'"),
        (["FILE", "-o", "xml"], "use auto, json or table"),
        (["FILE", "--weights", "1,2"], "not four numbers"),
        (["FILE", "--model", "nowhere"], "no cost model at nowhere"),
        (["FILE", "--seconds", "-1"], "must be more than 0"),
    ],
)
def test_faults_are_one_clear_line(file, arguments, words):
    result = runner.invoke(app, ["place", *(str(file) if a == "FILE" else a for a in arguments)])
    assert result.exit_code == 1
    assert words in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("name: wildfire", "nam: wildfire", "workflow.nam: there is no such key; did you mean 'name'?"),
        ("mips: 5000", "mips: fast", r"network.sites\[0\].mips"),
        ("  detect: {site: cloud, platform: flink}\n", "", "root does not place 'detect'"),
        ("platform: flink}", "platform: beam}", "the network does not offer that"),
        (", platform: flink}", "}", "several platforms: name one"),
        ("alert: {site: tower}", "alarm: {site: tower}", "unknown operators alarm"),
        ("constraints:", "objective: speed\nconstraints:", "objective 'speed' is unknown"),
        ("constraints:", "latency_ms: {ghost: {hub: 1}}\nconstraints:", "no such operator"),
        ("workflow:", "workflow: [", "not YAML"),
    ],
)
def test_faults_in_the_file_name_their_place(tmp_path, old, new, words):
    assert old in PROBLEM
    path = tmp_path / "bad.yaml"
    path.write_text(PROBLEM.replace(old, new, 1))
    with pytest.raises(Exception, match=words) as fault:
        read_problem(path)
    assert isinstance(fault.value, DataError) or "root places" in str(fault.value)


def test_measured_latencies_and_a_missing_root(tmp_path):
    path = tmp_path / "p.yaml"
    body = PROBLEM[: PROBLEM.index("root:")] + "latency_ms: {alert: {cloud: 0.001}}\n"
    path.write_text(body)
    problem = read_problem(path)
    assert problem.describe(problem.root)["alert"][0] == "cloud"
    assert problem.evaluate(problem.root).migration_ms == 0.0
