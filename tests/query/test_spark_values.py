"""What Spark computes of a row is what DuckDB does; what would differ is refused by name."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.query import expressions_alike
from tests.query.engines_alike import LOOSE, TABLE, local, opened_on, without_java

import tacet
from tacet.errors import UnsupportedConstruct
from tacet.query.engines.spark_local import quietly

pytestmark = pytest.mark.skipif(without_java() is not None, reason=str(without_java()))


def test_every_expression_has_the_same_value() -> None:
    """Bit for bit, over NULL, NaN, signed zeros, infinities, ends of time and strange texts."""
    data = expressions_alike.table(220, seed=9)
    with quietly():
        frame = local().newSession().createDataFrame(data)
        spark = frame.sparkSession
        frame.createOrReplaceTempView("data")
        for name, value in settings().items():
            spark.conf.set(name, value)
        assert not expressions_alike.differences(spark, "data", data, expressions_alike.ALIKE)


def settings() -> Mapping[str, str]:
    from tacet.query.engines.spark import SETTINGS

    return SETTINGS


def test_a_wrong_value_would_be_found() -> None:
    data = expressions_alike.table(40, seed=1)
    with quietly():
        frame = local().newSession().createDataFrame(data.set_column(1, "a", data["b"]))
        frame.createOrReplaceTempView("data")
        assert expressions_alike.differences(frame.sparkSession, "data", data, ["a + 1"])


def test_what_differs_is_refused_by_name_before_anything_is_spent() -> None:
    with opened_on("spark", TABLE, unit=LOOSE) as session:
        table = session.table("t")
        for condition, name in {
            "ln(x) > 1": "LN",
            "power(x, 2) > 1": "POWER",
            "sin(whole) > 0": "SIN",
            "reverse(note) = 'z'": "REVERSE",
            "CAST(x AS VARCHAR) = '0.5'": "VARCHAR",
        }.items():
            query = table.where(condition).agg(n=tacet.count())
            with pytest.raises(UnsupportedConstruct, match=name):
                session.evaluate(query, budget=tacet.PureDP(1))
        with pytest.raises(UnsupportedConstruct, match="EXP"):
            session.evaluate(
                table.group_by("region", keys=tacet.private_keys()).agg(
                    n=tacet.sum("exp(x)", 0, 1)
                ),
                budget=tacet.ApproxDP(1, "1e-6"),
            )
        assert session.spent == tacet.ApproxDP(0, 0)
