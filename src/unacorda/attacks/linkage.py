r"""Linkage: finding a person's record in a released table from a few known facts."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks
from unacorda.audit.arguments import floats
from unacorda.errors import InvalidParameter

Floats = NDArray[np.float64]

_DECAY: Final = 1.5


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Link:
    """The record that fits best, or no match.

    Attributes
    ----------
    match
        The row of the table; None for "no match".
    eccentricity
        The gap between the best score and the second, in standard deviations of all scores.
    scores
        One per record.

    Examples
    --------
    >>> Link(match=None, eccentricity=0.3, scores=np.zeros(5))
    Link(no match, eccentricity 0.3)
    """

    match: int | None
    eccentricity: float
    scores: Floats

    def __repr__(self) -> str:
        found = "no match" if self.match is None else f"record {self.match}"
        return f"Link({found}, eccentricity {self.eccentricity:.3g})"


def linkage(
    table: ArrayLike,
    known: ArrayLike,
    *,
    times: ArrayLike | None = None,
    known_times: ArrayLike | None = None,
    value_scale: float = _DECAY,
    time_scale: float = 30.0,
    least: float = 1.5,
) -> Link:
    r"""Find the record of `table` that matches a few facts about a person (Scoreboard-RH).

    Statement: score of r = sum over known items i that r has of w (exp(-|value gap| / value_scale)
    + exp(-|time gap| / time_scale)), w = 1 / ln max(support, 2), support the number of records with
    item i: rare items count most.

    Source: Narayanan and Shmatikov 2008, section 4.

    Parameters
    ----------
    table
        n x items, NaN where a record has no value.
    known
        The items' values known to the attacker, NaN if unknown. Known values may be wrong.
    times, known_times
        The times of the values, in any unit, likewise.
    value_scale, time_scale
        The gap at which a wrong value or time counts 1/e of a right one; above 0.
    least
        The least eccentricity of a match.

    Returns
    -------
    Link
        The match, if there is one, and all scores.

    Raises
    ------
    InvalidParameter
        For arrays whose shapes do not fit, and if nothing is known.

    Examples
    --------
    >>> drawn = np.random.default_rng(1)
    >>> table = np.where(drawn.random((500, 200)) < 0.1, drawn.integers(1, 6, (500, 200)), np.nan)
    >>> facts = np.where(np.arange(200) < 80, table[7], np.nan)  # of some 8 items
    >>> linkage(table, facts).match
    7
    """
    records, facts = _table("table", table), floats("known", known)
    if facts.shape != (records.shape[1],):
        raise InvalidParameter(
            "known",
            f"an array of shape {facts.shape}",
            expected=f"{records.shape[1]} values, one per item, NaN for unknown ones",
        )
    if np.isnan(facts).all():
        raise InvalidParameter("known", "nothing but NaN", expected="one known value at least")
    if (times is None) != (known_times is None):
        raise InvalidParameter(
            "known_times", known_times, expected="times of both the table and the known facts"
        )
    if np.isinf(records).any() or np.isinf(facts).any():
        raise InvalidParameter("table", "infinite values", expected="finite ones, NaN for none")
    value_scale, time_scale = (
        checks.positive(value_scale=value_scale),
        checks.positive(time_scale=time_scale),
    )
    checks.positive(least=least)
    items = ~np.isnan(facts)
    has = ~np.isnan(records[:, items])
    weights = 1 / np.log(np.maximum(has.sum(axis=0), 2))
    worth = _near(records[:, items], facts[items], value_scale)
    if times is not None and known_times is not None:
        when, at = _table("times", times), floats("known_times", known_times)
        if when.shape != records.shape or at.shape != facts.shape:
            raise InvalidParameter(
                "times", f"an array of shape {when.shape}", expected="the shape of the table"
            )
        worth = worth + _near(when[:, items], at[items], time_scale)
    scores = worth @ weights
    order = np.argsort(-scores, kind="stable")
    spread = float(scores.std())
    gap = float(scores[order[0]] - scores[order[1]])
    eccentricity = gap / spread if spread > 0 else 0.0
    match = int(order[0]) if eccentricity > least else None
    return Link(match=match, eccentricity=eccentricity, scores=scores)


def _near(values: Floats, facts: Floats, scale: float) -> Floats:
    """exp(-|gap| / scale), 0 where either is missing."""
    found: Floats = np.nan_to_num(np.exp(-np.abs(values - facts) / scale), nan=0.0)
    return found


def _table(name: str, values: ArrayLike) -> Floats:
    array = floats(name, values)
    if array.ndim != 2 or array.shape[0] < 2 or array.shape[1] < 1:
        raise InvalidParameter(
            name, f"an array of shape {array.shape}", expected="two records or more of items"
        )
    return array
