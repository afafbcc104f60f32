"""The same searches over Spark, and the training pipeline. One session for the file."""

import json

import pandas as pd
import pytest

from godwit.errors import DataError
from godwit.placement.cost_models.learned import LearnedModel
from godwit.placement.cost_models.parametric import ParametricModel
from godwit.placement.cost_models.simulate import simulate
from godwit.placement.search.base import Options, search
from tests.placement.helpers import random_problem
from tests.placement.test_cost_models import NETWORK, WORKFLOW


@pytest.fixture(scope="module")
def spark():
    from godwit.engine.session import spark_session

    return spark_session("placement-tests", cores=2)


@pytest.mark.parametrize("name", ["esc", "rand-esc", "esq", "rss"])
def test_spark_gives_the_answer_of_threads(spark, name):
    from godwit.engine.placement_search import SparkExecutor

    problem = random_problem(31, operators=6, sites=7, weighted=name == "rss")
    options = {"samples": 5000, "seed": 3, "batch": 20_000}
    local = search(problem, Options(name, threads=2, **options))
    remote = search(problem, Options(name, executor=SparkExecutor(spark, tasks=3), **options))
    assert (remote.plan, remote.cost, remote.examined) == (local.plan, local.cost, local.examined)
    assert remote.complete


def test_a_time_limit_reaches_the_tasks(spark):
    from godwit.engine.placement_search import SparkExecutor

    problem = random_problem(32, operators=10, sites=100, forbid=0.0)
    answer = search(problem, Options("esc", seconds=1.0, executor=SparkExecutor(spark)))
    assert not answer.complete
    assert answer.examined > 0
    assert answer.seconds < 8.0


def test_training_from_a_log(spark, tmp_path):
    from godwit.engine.train_cost_models import train

    rows = pd.DataFrame(simulate(WORKFLOW, NETWORK, plans=300, seed=9))
    rows.to_parquet(tmp_path / "log.parquet")
    errors = train(spark, str(tmp_path / "log.parquet"), tmp_path / "out")
    assert errors["traffic_mbps"]["r2"] > 0.9
    assert json.loads((tmp_path / "out" / "errors.json").read_text()) == errors
    parametric = ParametricModel.load(tmp_path / "out" / "parametric.json")
    local = ParametricModel.train(rows.to_dict("records"))
    assert set(parametric.latency) == set(local.latency)
    group = next(iter(local.latency))
    assert parametric.latency[group].estimate() == pytest.approx(local.latency[group].estimate(), rel=1e-6)
    learned = LearnedModel.load(tmp_path / "out" / "learned")
    assert learned.tables(WORKFLOW, NETWORK).latency.shape == (3, 3)


def test_logs_as_json_lines_and_logs_that_lack_something(spark, tmp_path):
    from godwit.engine.train_cost_models import read_log

    rows = pd.DataFrame(simulate(WORKFLOW, NETWORK, plans=5, seed=9))
    rows.to_json(tmp_path / "log.jsonl", orient="records", lines=True)
    assert read_log(spark, str(tmp_path / "log.jsonl")).count() == len(rows)
    rows.drop(columns="mips").to_parquet(tmp_path / "bad.parquet")
    with pytest.raises(DataError, match="lacks mips"):
        read_log(spark, str(tmp_path / "bad.parquet"))
    with pytest.raises(DataError, match="no metrics log at"):
        read_log(spark, str(tmp_path / "nothing"))
