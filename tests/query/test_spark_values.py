"""What Spark computes of a row is what DuckDB does, and what the language says."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.query import expressions_alike
from tests.query.engines_alike import local, without_java
from tests.support.seams import quietly

pytestmark = [
    pytest.mark.service,
    pytest.mark.skipif(without_java() is not None, reason=str(without_java())),
]


def test_every_expression_has_the_same_value() -> None:
    """Over NULL, NaN, signed zeros, infinities, ends of time and strange texts.

    Bit for bit, but for the last bits of curves.
    """
    data = expressions_alike.table(220, seed=9)
    with quietly():
        frame = local().newSession().createDataFrame(data)
        spark = frame.sparkSession
        frame.createOrReplaceTempView("data")
        for name, value in settings().items():
            spark.conf.set(name, value)
        assert not expressions_alike.differences(
            expressions_alike.on_spark(spark, "data"),
            data,
            [*expressions_alike.ALIKE, *expressions_alike.NEAR],
        )


def settings() -> Mapping[str, str]:
    from tests.support.seams import SETTINGS

    return SETTINGS


def test_a_wrong_value_would_be_found() -> None:
    data = expressions_alike.table(40, seed=1)
    with quietly():
        frame = local().newSession().createDataFrame(data.set_column(1, "a", data["b"]))
        frame.createOrReplaceTempView("data")
        there = expressions_alike.on_spark(frame.sparkSession, "data")
        assert expressions_alike.differences(there, data, ["a + 1"])
