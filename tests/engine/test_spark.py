"""The engine: tasks on Spark, their results and failures."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from bcn.engine.spark import Engine, EngineError, SparkSettings, _effective
from bcn.errors import StorageFullError


def _square(number: int) -> int:
    return number * number


def _where(_task: int) -> tuple[int, int]:
    return os.getpid(), os.getppid()


def _fail(number: int) -> int:
    if number == 3:
        raise StorageFullError("no room for number three")
    return number


@pytest.fixture
def engine(spark: Any) -> Engine:
    return Engine(SparkSettings(master="local[2]"))


@pytest.mark.spark
def test_results_come_in_the_order_of_the_tasks(engine: Engine) -> None:
    numbers = list(range(50, 0, -1))
    assert engine.run(_square, numbers) == [number * number for number in numbers]
    assert engine.stats.tasks == 50
    assert engine.stats.retried == 0


@pytest.mark.spark
def test_tasks_run_in_other_processes(engine: Engine) -> None:
    pids = {pid for pid, _ in engine.run(_where, [1, 2, 3, 4])}
    assert os.getpid() not in pids
    assert {pid for _, pid in engine.stats.processes} == pids


@pytest.mark.spark
def test_an_error_of_ours_arrives_as_it_was_raised(engine: Engine) -> None:
    with pytest.raises(StorageFullError, match="no room for number three"):
        engine.run(_fail, [1, 2, 3, 4])
    assert engine.run(_fail, [1, 2]) == [1, 2]


@pytest.mark.spark
def test_any_other_error_of_a_task_is_an_engine_error_that_says_why(engine: Engine) -> None:
    with pytest.raises(EngineError, match="invalid literal for int"):
        engine.run(int, ["1", "x"])
    assert engine.run(int, ["1", "2"]) == [1, 2]


@pytest.mark.spark
def test_an_engine_leaves_a_session_that_others_started(engine: Engine, spark: Any) -> None:
    assert engine.slots == 2
    assert engine.host == "127.0.0.1"
    engine.stop()
    assert spark.range(3).count() == 3


def test_no_tasks_need_no_spark() -> None:
    engine = Engine(SparkSettings())
    assert engine.run(_square, []) == []
    assert not engine.is_started
    engine.stop()


def _python(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )


@pytest.mark.spark
def test_a_master_that_does_not_exist_is_an_engine_error() -> None:
    done = _python("""
        from bcn.engine.spark import Engine, EngineError, SparkSettings
        engine = Engine(SparkSettings(master="nonsense"))
        engine.warm_up()
        assert engine.is_started
        try:
            engine.run(abs, [1])
        except EngineError as error:
            assert "cannot start Spark" in str(error), error
            assert error.hint
            engine.stop()
            print("told")
    """)
    assert done.stdout == "told\n", done.stderr


@pytest.mark.spark
def test_an_engine_starts_spark_and_ends_it() -> None:
    done = _python("""
        from bcn.engine.spark import Engine, SparkSettings
        engine = Engine(SparkSettings(master="local[4]", jobs=1, conf={"spark.app.name": "other"}))
        assert engine.run(abs, [-1, -2, -3]) == [1, 2, 3]
        context = engine.context
        assert context.appName == "other" and context.master == "local[1]" and engine.slots == 1
        engine.stop()
        assert context._jsc is None
        engine.stop()
        print("ended")
    """)
    assert done.stdout == "ended\n", done.stderr


# settings


def test_jobs_limit_a_local_master() -> None:
    assert _effective(SparkSettings(jobs=3))["spark.master"] == "local[3]"
    assert _effective(SparkSettings())["spark.master"] == "local[*]"


def test_a_cluster_gets_no_local_address() -> None:
    conf = _effective(SparkSettings(master="spark://host:7077", jobs=3))
    assert conf["spark.master"] == "spark://host:7077"
    assert "spark.driver.host" not in conf


def test_what_the_user_sets_wins() -> None:
    settings = SparkSettings(conf={"spark.driver.memory": "9g"}, iceberg=True)
    assert _effective(settings)["spark.driver.memory"] == "9g"


def test_iceberg_comes_out_of_the_environment_or_from_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    packages = _effective(SparkSettings(iceberg=True))["spark.jars.packages"]
    assert "iceberg-spark-runtime" in packages
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "iceberg.jar").touch()
    conf = _effective(SparkSettings(iceberg=True))
    assert conf["spark.jars"] == str(tmp_path / "jars" / "iceberg.jar")
    assert "IcebergSparkSessionExtensions" in conf["spark.sql.extensions"]
