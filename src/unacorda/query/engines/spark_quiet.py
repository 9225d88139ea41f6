"""What Spark would say beside an answer is kept from being said; whether it is there at all."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["ended", "quietly", "unlogged"]


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
