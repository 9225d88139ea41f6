"""Random SELECTs, from mostly valid ones to soup, over the table of the nastiest rows."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from hypothesis import strategies as st
from tests.query.expression_grammar import texts_of
from tests.support.seams import Kind

__all__ = ["selects"]

_ORDERS = ("", " DESC", " NULLS FIRST", " DESC NULLS LAST")


_numbers = st.one_of(st.sampled_from(["x", "age", "ratio", "n"]), texts_of(Kind.NUMBER, levels=2))
_truths = st.one_of(
    st.sampled_from(["b", "x > 0", "age IS NULL"]), texts_of(Kind.BOOLEAN, levels=2)
)
_bounded = _numbers.map(lambda text: f"ratio + LEAST(GREATEST({text}, -5), 5)")


@st.composite
def _aggregates(draw: st.DrawFn) -> str:
    number = draw(_bounded)
    text = draw(
        st.sampled_from(
            [
                "COUNT(*)",
                "COUNT({})",
                "COUNT_IF({} > 1)",
                "SUM({})",
                "AVG({})",
                "MEDIAN({})",
                "QUANTILE({}, 0.9)",
                "MIN({})",
                "PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY {})",
                "COUNT(DISTINCT person)",
                "COUNT(DISTINCT CASE WHEN {} > 0 THEN id END)",
                "IQR({})",
                "MEDIAN_WITH_INTERVAL({})",
                "VAR_SAMP({})",
                "CORR({}, ratio)",
                "STDDEV_POP({})",
                "HISTOGRAM({}, [-1, 0, 2.5])",
                "HISTOGRAM_NUMERIC({}, 3)",
            ]
        )
    ).format(number)
    if "DISTINCT" not in text and draw(st.booleans()):
        text += f" FILTER (WHERE {draw(_truths)})"
    return text


@st.composite
def _relations(draw: st.DrawFn, levels: int = 2) -> str:
    """A table, or a row-wise SELECT that keeps the names of all its columns."""
    if levels == 0 or draw(st.booleans()):
        return "nasty"
    inner = draw(_relations(levels - 1))
    made = draw(_numbers)
    columns = draw(
        st.sampled_from(
            ["*", f"*, {made} AS made{levels}", "id, x, age, ratio, n, y, s, u, b, d, t"]
        )
    )
    where = f" WHERE {draw(_truths)}" if draw(st.booleans()) else ""
    alias = draw(st.sampled_from(["", " AS r", " r"]))
    return f"(SELECT {columns} FROM {inner}{where}){alias}"


@st.composite
def selects(draw: st.DrawFn) -> str:
    """SELECTs that are meant to be answered; some clash in a name or a kind, and are refused."""
    items = [
        f"{text} AS c{i}"
        for i, text in enumerate(draw(st.lists(_aggregates(), min_size=1, max_size=3)))
    ]
    if draw(st.booleans()):
        first, second = draw(_aggregates()), draw(_aggregates())
        sign = draw(st.sampled_from(["+", "-", "*", "/", "%", "^"]))
        items.append(f"{first} {sign} {second} AS computed")
    groups = draw(st.sampled_from([[], ["b"], ["b", "k"]]))
    relation = draw(_relations())
    if draw(st.booleans()):
        head, table = f"WITH w AS (SELECT * FROM {relation}) ", "w"
    else:
        head, table = "", relation
    shown = [*groups]
    if "k" in groups:
        shown[1] = f"x > 0 AND {draw(_truths)} AS k"
    text = f"{head}SELECT {', '.join([*shown, *items])} FROM {table}"
    if draw(st.booleans()):
        text += f" WHERE {draw(_truths)}"
    if groups:
        listed = ", ".join(groups)
        text += (
            f" GROUP BY {draw(st.sampled_from([listed, f'ROLLUP({listed})', f'CUBE({listed})']))}"
        )
    if draw(st.booleans()):
        text += f" HAVING {draw(st.sampled_from(['c0 > 1', 'c0 / c0 < 2 OR NULL', 'c0 IS NULL']))}"
    if draw(st.booleans()):
        key = draw(st.sampled_from(["c0", "1", "-c0", "ABS(c0)", "SIN(c0) + 1"]))
        text += f" ORDER BY {key}{draw(st.sampled_from(_ORDERS))}"
    if draw(st.booleans()):
        text += " LIMIT 2 OFFSET 1"
    return text
