"""Cost models: the right distribution is found, held-out errors are small, files carry a version."""

import functools
import json
import pickle

import numpy as np
import pandas as pd
import pytest
import skops.io

from godwit.errors import DataError
from godwit.placement.cost_models.learned import LearnedModel
from godwit.placement.cost_models.metrics_log import COLUMNS, check_columns
from godwit.placement.cost_models.parametric import Fit, ParametricModel, fit
from godwit.placement.cost_models.simulate import simulate
from godwit.placement.problem.build import build_problem
from godwit.placement.problem.network import Network, NetworkLink, NetworkSite
from godwit.placement.problem.workflow import DataEdge, Workflow, WorkflowOperator
from godwit.placement.search.base import Options, search

WORKFLOW = Workflow(
    "w",
    (WorkflowOperator("a", work=1.0), WorkflowOperator("b", work=4.0, state_mb=50.0), WorkflowOperator("c", work=2.0)),
    (DataEdge("a", "b", 2.0), DataEdge("b", "c", 0.5)),
)
NETWORK = Network(
    (
        NetworkSite("cloud", ("flink",), mips=400_000.0, kind="CLOUD"),
        NetworkSite("edge1", ("minifi-c",), mips=19_200.0, kind="RASPBERRY_PI"),
        NetworkSite("edge2", ("minifi-java",), mips=48_000.0, kind="LAPTOP"),
    ),
    (NetworkLink("cloud", "edge1", 3.0), NetworkLink("cloud", "edge2", 5.0)),
)
ROWS = list(simulate(WORKFLOW, NETWORK, plans=600, seed=3))


@pytest.mark.parametrize(
    ("family", "draw", "mean"),
    [
        ("normal", lambda r: r.normal(50.0, 3.0, 4000), 50.0),
        ("rayleigh", lambda r: r.rayleigh(2.0, 4000), 2.0 * np.sqrt(np.pi / 2)),
        ("gamma", lambda r: r.gamma(3.0, 2.0, 4000), 6.0),
        ("lognormal", lambda r: r.lognormal(1.0, 0.7, 4000), np.exp(1.0 + 0.7**2 / 2)),
    ],
)
def test_the_family_the_data_came_from_wins(family, draw, mean):
    found = fit(draw(np.random.default_rng(4)))
    assert found.family == family
    assert found.estimate() == pytest.approx(mean, rel=0.05)
    assert found.estimate(0.95) > found.estimate()


def test_constant_and_negative_samples():
    assert fit([3.0, 3.0, 3.0]).estimate() == pytest.approx(3.0)
    assert fit([-1.0, 0.5, 2.0, 1.0]).family == "normal"
    with pytest.raises(DataError, match="cannot fit a distribution to 0 values"):
        fit([])
    with pytest.raises(DataError, match="1 are undefined"):
        fit([1.0, float("nan")])


def test_parametric_estimates_follow_the_speed_of_the_site(tmp_path):
    model = ParametricModel.train(ROWS)
    tables = model.tables(WORKFLOW, NETWORK)
    cloud, pi = 0, 1
    assert (tables.latency[:, cloud] < tables.latency[:, pi]).all()
    assert (tables.throughput[:, cloud] > tables.throughput[:, pi]).all()
    model.save(tmp_path / "m.json")
    again = ParametricModel.load(tmp_path / "m.json")
    assert again == model
    assert (again.tables(WORKFLOW, NETWORK).latency == tables.latency).all()


def test_parametric_falls_back_and_refuses_the_unknown():
    model = ParametricModel.train(ROWS)
    elsewhere = Network((NetworkSite("new", ("flink",), kind="NVIDIA_JETSON"),))
    assert np.isfinite(model.tables(WORKFLOW, elsewhere).latency).all()
    stranger = Workflow("w", (WorkflowOperator("z"),), ())
    with pytest.raises(DataError, match="'z' was never measured"):
        model.tables(stranger, NETWORK)


def test_a_careful_quantile_is_slower():
    mean, careful = (ParametricModel.train(ROWS, q).tables(WORKFLOW, NETWORK) for q in (None, 0.95))
    assert (careful.latency > mean.latency).all()
    assert (careful.throughput < mean.throughput).all()


@pytest.fixture(scope="module")
def learned():
    return LearnedModel.train(pd.DataFrame(ROWS))


def test_learned_errors_on_held_out_rows(learned):
    errors = learned.errors()
    assert set(errors) == {"throughput_ktps", "latency_ms", "traffic_mbps", "migration_ms"}
    assert errors["traffic_mbps"].r2 > 0.9
    assert errors["throughput_ktps"].relative < 0.25
    assert all(e.rows > 0 for e in errors.values())


def test_learned_tables_make_a_problem(learned, tmp_path):
    tables = learned.tables(WORKFLOW, NETWORK)
    assert (tables.latency[:, 0] < tables.latency[:, 1]).all()
    problem = build_problem(WORKFLOW, NETWORK, tables, (1, 1, 1))
    assert search(problem, Options("auto")).gap == 0.0
    learned.save(tmp_path / "m")
    again = LearnedModel.load(tmp_path / "m")
    assert (again.tables(WORKFLOW, NETWORK).latency == tables.latency).all()
    assert again.errors() == learned.errors()


def test_models_of_another_version_are_refused(learned, tmp_path):
    learned.save(tmp_path / "m")
    body = json.loads((tmp_path / "m" / "model.json").read_text())
    (tmp_path / "m" / "model.json").write_text(json.dumps(body | {"version": 99}))
    with pytest.raises(DataError, match="train the model again"):
        LearnedModel.load(tmp_path / "m")
    with pytest.raises(DataError, match=r"holds no model\.json"):
        LearnedModel.load(tmp_path)
    (tmp_path / "p.json").write_text("{}")
    with pytest.raises(DataError, match="not a parametric cost model of version"):
        ParametricModel.load(tmp_path / "p.json")


def _calls(code):
    """A skops file of an object that would call something."""
    return skops.io.dumps(functools.partial(print, code))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (_calls("run"), "it holds .*partial"),
        (skops.io.dumps([1, 2]), "it holds list"),
        (pickle.dumps("a model of before"), "cannot be read as a model"),
    ],
    ids=["a call", "another object", "a pickle"],
)
def test_model_files_that_are_no_regressor_are_refused(learned, tmp_path, body, why):
    learned.save(tmp_path)
    (tmp_path / "latency_ms.skops").write_bytes(body)
    with pytest.raises(DataError, match=rf"latency_ms\.skops .*{why}.*train the model again"):
        LearnedModel.load(tmp_path)
    (tmp_path / "latency_ms.skops").unlink()
    with pytest.raises(DataError, match=r"holds no latency_ms\.skops"):
        LearnedModel.load(tmp_path)


def test_too_few_rows():
    with pytest.raises(DataError, match="rows to learn"):
        LearnedModel.train(pd.DataFrame(ROWS[:10]))


def test_the_simulator_writes_the_documented_columns():
    assert set(ROWS[0]) == set(COLUMNS)
    check_columns(ROWS[0], "here")
    with pytest.raises(DataError, match="lacks latency_ms"):
        check_columns([c for c in COLUMNS if c != "latency_ms"], "here")
    assert list(simulate(WORKFLOW, NETWORK, 5, seed=1)) == list(simulate(WORKFLOW, NETWORK, 5, seed=1))


def test_a_fit_can_be_compared():
    assert Fit("normal", (1.0, 2.0), -3.0, 4) == Fit("normal", (1.0, 2.0), -3.0, 4)
