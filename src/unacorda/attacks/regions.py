r"""Regions of a mechanism's trade-off curve, from runs with and without a record."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks
from unacorda.audit.binomials import rate_above
from unacorda.audit.bounds import canaries
from unacorda.display import counted
from unacorda.errors import InvalidParameter
from unacorda.privacy.tradeoff import TradeoffCurve

Floats = NDArray[np.float64]

_FEWEST: Final = 8
_MOST: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class ErrorRegion:
    """Simultaneous upper bounds on error rates of tests of a mechanism.

    The trade-off curve passes below or to the left of each pair. A guarantee whose curve runs above
    one of them is refuted.

    Attributes
    ----------
    false_alarms, misses
        One rate per test; misses fall as false alarms rise.
    confidence
        The simultaneous confidence of all bounds.

    Examples
    --------
    >>> ErrorRegion(false_alarms=np.array([0.1]), misses=np.array([0.6]), confidence=0.95)
    ErrorRegion(1 test, confidence=0.95)
    """

    false_alarms: Floats
    misses: Floats
    confidence: float

    def refutes(self, promised: TradeoffCurve) -> bool:
        """Say whether a claimed curve runs above one of the pairs for certain.

        Parameters
        ----------
        promised
            The trade-off curve of a guarantee, or of an event.

        Examples
        --------
        >>> from unacorda import GDP
        >>> seen = ErrorRegion(
        ...     false_alarms=np.array([0.1]), misses=np.array([0.6]), confidence=0.95
        ... )
        >>> [seen.refutes(TradeoffCurve.of_guarantee(GDP(mu))) for mu in (0.5, 2)]
        [True, False]
        """
        if not isinstance(promised, TradeoffCurve):
            raise InvalidParameter("promised", promised, expected="a TradeoffCurve")
        pairs = zip(self.false_alarms.tolist(), self.misses.tolist(), strict=True)
        return any(promised.beta(alpha=alarms) > missed for alarms, missed in pairs)

    def __repr__(self) -> str:
        return f"ErrorRegion({counted(self.misses.size, 'test')}, confidence={self.confidence:g})"


def error_region(
    scores: ArrayLike, included: ArrayLike, *, confidence: float = 0.95, tests: int = 15
) -> ErrorRegion:
    r"""Bound both error rates of threshold tests from above, by independent runs.

    Statement: rates are bounded by Clopper and Pearson, each at (1 - confidence) / (2 tests).

    Bound: upper, of all rates together with probability `confidence`.

    Source: Bonferroni; Jagielski, Ullman, Oprea 2020, arXiv:2006.07709 (one threshold).

    Parameters
    ----------
    scores
        One number per run, higher where it had the record.
    included
        Whether it had the record, one boolean per run.
    confidence
        Between 0 and 1, of all bounds together.
    tests
        The number of thresholds, chosen on every other run of each kind and evaluated on the rest;
        fewer if those have fewer distinct scores.

    Returns
    -------
    ErrorRegion
        A pair of rates for each threshold.

    Raises
    ------
    InvalidParameter
        As `audit.many_runs`.

    Examples
    --------
    >>> drawn = np.random.default_rng(1)
    >>> kind = np.arange(4000) % 2 == 1
    >>> region = error_region(2 * kind + drawn.normal(size=4000), kind)
    >>> bool(region.misses[0] > region.misses[-1])
    True
    """
    values, inside = canaries(scores, included)
    sure = checks.probability(confidence=confidence)
    count = checks.positive_integer(tests=tests)
    if count > _MOST:
        raise InvalidParameter("tests", tests, expected=f"at most {_MOST:,}")
    with_it, without = values[inside], values[~inside]
    if min(with_it.size, without.size) < _FEWEST:
        raise InvalidParameter(
            "included",
            f"{with_it.size} runs with the record, {without.size} without",
            expected=f"at least {_FEWEST} of each",
        )
    seen = np.concatenate([with_it[::2], without[::2]])
    shares = (np.arange(count) + 1) / (count + 1)
    cuts = np.unique(np.quantile(seen, shares, method="nearest"))[::-1]
    with_it, without = with_it[1::2], without[1::2]
    error = (1 - sure) / (2 * cuts.size)
    alarms = [
        rate_above(int(np.count_nonzero(without >= cut)), without.size, error=error) for cut in cuts
    ]
    misses = [
        rate_above(int(np.count_nonzero(with_it < cut)), with_it.size, error=error) for cut in cuts
    ]
    return ErrorRegion(
        false_alarms=np.array(alarms), misses=np.array(misses), confidence=float(sure)
    )
