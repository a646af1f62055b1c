"""The Spark session: started once, in the background, when the first real work is in sight."""

from __future__ import annotations

import gc
import os
import socket
import sys
import tempfile
import threading
import zipimport
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from bcn.errors import BcnError
from bcn.storage.requests import request_counts
from bcn.telemetry.progress import Progress

Task = TypeVar("Task")
Result = TypeVar("Result")


class EngineError(BcnError):
    """Spark could not be started or a job of it failed."""

    hint = "add -v to see what Spark itself says; a key under [spark] in the settings may be wrong"


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """Where the work runs: `master`, any other `spark.*` setting; `verbose` shows Spark's log."""

    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)
    jobs: int | None = None
    iceberg: bool = False
    verbose: bool = False


@dataclass
class EngineStats:
    """How the work ran: what the cluster did, for reports and tests."""

    tasks: int = 0
    retried: int = 0
    processes: set[tuple[str, int]] = field(default_factory=set)
    requests: Counter[str] = field(default_factory=Counter)


_DEFAULTS = {
    "spark.app.name": "bcn",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "512m",
    "spark.python.worker.reuse": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "ERROR",
}
# The JVM only hands out tasks: compiling it thoroughly would take more than all it does.
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": QUICK_JVM,
    "spark.python.daemon.module": "bcn.engine.daemon",
}
# Over TCP, every task ends with 40 ms of waiting for a delayed acknowledgement. The kernel allows
# 108 bytes for the name of a socket, of which Spark uses 42.
_LONGEST_SOCKET_FOLDER = 60


class Engine:
    """Runs tasks on Spark. `warm_up` starts it in the background; `run` waits for it."""

    def __init__(self, settings: SparkSettings) -> None:
        self.settings = settings
        self.stats = EngineStats()
        self._context: Any = None
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None

    @property
    def is_started(self) -> bool:
        """Whether Spark runs or is being started."""
        return self._thread is not None

    def wait(self, progress: Progress) -> None:
        """Return when Spark is up; tell that it is being waited for."""
        if self._context is None:
            progress.phase("starting Spark")
        _ = self.context

    def warm_up(self) -> None:
        """Begin to start Spark, without waiting."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._start, name="bcn-spark", daemon=True)
            self._thread.start()

    def _start(self) -> None:
        try:
            self._context = _start_context(self.settings)
        except BaseException as error:  # noqa: BLE001  shown by whoever waits
            self._failure = error

    @property
    def context(self) -> Any:
        """The SparkContext, once it is up. Raises EngineError."""
        self.warm_up()
        assert self._thread is not None  # noqa: S101  warm_up has just set it
        while self._thread.is_alive():
            self._thread.join(timeout=0.2)  # so that signals get a turn
        if self._failure is not None:
            raise EngineError(f"cannot start Spark: {self._failure}") from self._failure
        return self._context

    @property
    def slots(self) -> int:
        """How many tasks run at once."""
        return self.settings.jobs or int(self.context.defaultParallelism)

    @property
    def host(self) -> str:
        """The driver's address, as executors reach it."""
        return str(self.context.getConf().get("spark.driver.host", "127.0.0.1"))

    def requests(self) -> Counter[str]:
        """Requests to object stores so far, by kind: of this process, and of tasks anywhere."""
        return Counter(request_counts()) + self.stats.requests

    def run(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """The function's result for every task, in the order of the tasks."""
        if not tasks:
            return []
        partitions = len(tasks)
        if self.settings.jobs and not self.settings.master.startswith("local"):
            partitions = min(partitions, self.settings.jobs)
        numbered = list(enumerate(tasks))
        dealt = [numbered[start::partitions] for start in range(partitions)]
        context = self.context
        rows: list[Any] = []

        def collect() -> None:
            shares = context.parallelize(dealt, partitions)
            rows.extend(shares.mapPartitions(_Partition(function)).collect())

        try:
            self._wait_for(collect)
        except Exception as error:
            if type(error).__module__.startswith("py"):
                raise EngineError(f"a Spark job failed: {_reason(error)}") from error
            raise
        return self._unpack(rows)

    def _wait_for(self, job: Callable[[], None]) -> None:
        """Run a job; whatever stops the wait, such as a signal, cancels the job first.

        A thread has one line to the JVM, and a job occupies it until it ends: the job gets a thread
        of its own, so that this one is free to have it cancelled.
        """
        failures: list[BaseException] = []

        def attempt() -> None:
            try:
                job()
            except BaseException as error:  # noqa: BLE001  raised again by the thread that waits
                failures.append(error)

        thread = threading.Thread(target=attempt, name="bcn-spark-job", daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(timeout=0.2)  # so that signals get a turn
        except BaseException:
            self._cancel()
            thread.join(timeout=10)
            raise
        if failures:
            self._cancel()
            raise failures[0]

    def _unpack(self, rows: list[Any]) -> list[Any]:
        for _, attempt, process, requests, _ in rows:
            self.stats.tasks += 1
            self.stats.retried += attempt > 0
            self.stats.processes.add(process)
            self.stats.requests += requests
        for *_, result in rows:
            if isinstance(result, BcnError):
                raise result
        return [result for *_, result in sorted(rows, key=lambda row: row[0])]

    def _cancel(self) -> None:
        try:
            self._context.cancelAllJobs()
        except Exception:  # noqa: BLE001  the JVM may be gone, which ends its jobs as well
            return

    def stop(self, wait_seconds: float = 60.0) -> None:
        """End Spark if this engine started it; one that is still starting is waited for so long."""
        if self._thread is None:
            return
        self._thread.join(timeout=wait_seconds)
        if self._context is not None and self._context.__dict__.pop("_started_by_bcn", False):
            _stop_context(self._context)


def _stop_context(context: Any) -> None:
    """PySpark waits for the thread that takes accumulators, which looks up once a second.

    bcn has no accumulators, so that thread is left to end by itself, with the JVM or the process.
    """
    server, context._accumulatorServer = context._accumulatorServer, None
    server.handle_error = _leave
    context.stop()
    if isinstance(server.server_address, str):
        Path(server.server_address).unlink(missing_ok=True)
    threading.Thread(target=server.shutdown, name="bcn-spark-end", daemon=True).start()


def _leave(*_request: object) -> None:
    """A line that ended early is no news when all of it ends."""


class _Partition:
    """Runs a function over the tasks of one partition, with word of where that was."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def __call__(self, shares: Iterator[list[tuple[int, Any]]]) -> Iterator[Any]:
        from pyspark import TaskContext  # noqa: PLC0415  only where Spark runs already

        context = TaskContext.get()
        attempt = context.attemptNumber() if context else 0
        process = socket.gethostname(), os.getpid()
        for number, task in chain.from_iterable(shares):
            before = Counter(request_counts())
            result = self._attempt(task)
            yield number, attempt, process, Counter(request_counts()) - before, result
        _quicken_worker()

    def _attempt(self, task: Any) -> Any:
        """The result, or the error that bcn can explain: trying again would not help there."""
        try:
            return self._function(task)
        except BcnError as error:
            return error


def _quicken_worker() -> None:
    """Spare the worker's next task two chores of 50 ms each.

    Between two tasks PySpark re-reads every zip on the import path and collects garbage among all
    modules; a forgotten zip importer is made again when an import asks for it, and frozen modules
    are not garbage.
    """
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimport.zipimporter):
            del sys.path_importer_cache[path]
    gc.freeze()


def _reason(error: Exception) -> str:
    """Why a job failed: the last line of a task's own traceback, if Spark's message has one."""
    _, traceback, text = str(error).partition("Traceback (most recent call last):")
    lines = [line.strip() for line in text.split("\n\tat ")[0].splitlines() if line.strip()]
    return lines[-1][:600] if traceback and lines else _first_lines(error)


def _first_lines(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " / ".join(lines[:3])[:600]


def _start_context(settings: SparkSettings) -> Any:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Java takes the encoding of file names from the locale; without it most become '?'.
    os.environ.setdefault("LC_ALL", "C.UTF-8")
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415  costs half a second: only when needed

    conf = SparkConf(loadDefaults=True)
    for key, value in _effective(settings).items():
        conf.set(key, value)
    existed = SparkContext._active_spark_context is not None
    if SparkContext._gateway is None:
        SparkContext._ensure_initialized(gateway=_launch_jvm(conf, settings), conf=conf)
    context = SparkContext.getOrCreate(conf)
    if not existed:
        context.__dict__["_started_by_bcn"] = True
    return context


def _launch_jvm(conf: Any, settings: SparkSettings) -> Any:
    """The JVM. What it prints is shown to those who asked for it, or when it does not start."""
    from pyspark import java_gateway  # noqa: PLC0415  only those who need Spark import it

    launch: Callable[..., Any] = java_gateway.launch_gateway
    if settings.verbose:
        return launch(conf, {"stdout": 2})  # stdout is for the command's result alone
    with tempfile.TemporaryFile() as log:
        try:
            return launch(conf, {"stdout": log, "stderr": log})
        except Exception as error:
            log.seek(0)
            lines = log.read().decode(errors="replace").splitlines()
            said = " / ".join(line.strip() for line in lines[-3:]) or _first_lines(error)
            raise EngineError(f"the JVM did not start: {said[:600]}") from error


def archive_folder() -> Path:
    """Where the environment keeps the classes of Spark's JVM, if it does: see archive.py."""
    return Path(sys.prefix) / "jvm"


def archive_name(size_bytes: int) -> str:
    """An archive tells its size by its name: a JVM would crash on one that is cut short."""
    return f"spark-{size_bytes}.jsa"


def archive_conf(folder: Path) -> dict[str, str]:
    """Settings that let a JVM start from the archive in a folder, if there is one.

    It compares checksums first, 0.2 s of the 3 that are saved, and ignores one that does not fit.
    """
    for path in folder.glob("*.jsa"):
        if path.name == archive_name(path.stat().st_size):
            option = quote_option(f"-XX:SharedArchiveFile={path}")
            quiet = "-Xlog:cds=off -Xlog:cds+dynamic=off"
            return {"spark.driver.defaultJavaOptions": f"{option} -XX:+VerifySharedSpaces {quiet}"}
    return {}


def quote_option(option: str) -> str:
    """An option of Java's as one word, as Spark reads them."""
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _effective(settings: SparkSettings) -> dict[str, str]:
    conf = _DEFAULTS | archive_conf(archive_folder())
    master = settings.master
    if master.startswith("local"):
        conf |= _LOCAL
        if len(tempfile.gettempdir()) <= _LONGEST_SOCKET_FOLDER:
            conf["spark.python.unix.domain.socket.enabled"] = "true"
        if settings.jobs:
            master = f"local[{settings.jobs}]"
    conf["spark.master"] = master
    if settings.iceberg:
        conf |= _iceberg_conf()
    return conf | dict(settings.conf)


ICEBERG_PACKAGE = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
SQLITE_PACKAGE = "org.xerial:sqlite-jdbc:3.50.3.0"


def _iceberg_conf() -> dict[str, str]:
    """The Iceberg runtime: out of the environment's own `jars` folder, else fetched by Spark."""
    extensions = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    jars = sorted(str(path) for path in (Path(sys.prefix) / "jars").glob("*.jar"))
    source = (
        {"spark.jars": ",".join(jars)}
        if jars
        else {"spark.jars.packages": f"{ICEBERG_PACKAGE},{SQLITE_PACKAGE}"}
    )
    return {
        **source,
        "spark.sql.extensions": extensions,
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "",  # rows pass through this JVM: compile it well
    }
