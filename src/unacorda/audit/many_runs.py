"""Audits by running a mechanism many times on two neighboring inputs."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from unacorda import checks
from unacorda.audit.arguments import level
from unacorda.audit.binomials import rate_above
from unacorda.audit.bounds import Bound, Floats, canaries, delta_of
from unacorda.errors import InvalidParameter
from unacorda.privacy.conversions import approx_dp_from_gdp

_FEWEST: Final = 8
_MARGIN: Final = 1e-9


def many_runs(
    scores: ArrayLike,
    included: ArrayLike,
    *,
    delta: float = 0.0,
    confidence: float = 0.95,
    threshold: float | None = None,
    gaussian: bool = False,
) -> Bound:
    r"""Bound epsilon from below by independent runs with and without one record.

    Statement: with error rates bounded by Clopper and Pearson, each at (1 - confidence) / 2,
    epsilon >= ln((1 - FN - delta) / FP) and ln((1 - FP - delta) / FN), and
    mu >= Phi^-1(1 - FP) - Phi^-1(FN).

    Bound: lower. Source: Jagielski, Ullman, Oprea 2020, arXiv:2006.07709; Nasr et al. 2023,
    arXiv:2302.07956 (Gaussian DP).

    Parameters
    ----------
    scores
        One number per run, from its output alone.
    included
        Whether that run had the record; this must not depend on the outputs.
    delta
        From 0, below 1.
    confidence
        Between 0 and 1, at which the bound is true.
    threshold
        Runs at or above it count as having the record. None chooses one on every other run of each
        kind and evaluates it on the rest.
    gaussian
        Bound the mu of Gaussian DP, and convert it at delta, which must be above 0. It is valid if
        the runs are independent and the mechanism adds normal noise, or a mixture close to it.

    Returns
    -------
    Bound
        The lower bound, with the number of runs.

    Raises
    ------
    InvalidParameter
        As `one_run`, and for fewer than 8 runs of a kind.

    Examples
    --------
    >>> drawn = np.random.default_rng(1)
    >>> kind = np.arange(4000) % 2 == 1
    >>> found = many_runs(kind + drawn.laplace(size=4000), kind)  # Laplace noise for epsilon 1
    >>> 0.4 < found.epsilon <= 1
    True
    """
    values, inside = canaries(scores, included)
    loss, sure = delta_of(delta), checks.probability(confidence=confidence)
    if not isinstance(gaussian, bool | np.bool_):
        raise InvalidParameter("gaussian", gaussian, expected="True or False")
    if gaussian and loss == 0:
        raise InvalidParameter(
            "delta", delta, expected="above 0: Gaussian DP has no epsilon at delta 0"
        )
    with_it, without = values[inside], values[~inside]
    if min(with_it.size, without.size) < _FEWEST:
        raise InvalidParameter(
            "included",
            f"{with_it.size} runs with the record, {without.size} without",
            expected=f"at least {_FEWEST} of each",
        )
    error = (1 - sure) / 2
    if threshold is None:
        one, other = with_it[::2], without[::2]
        cut = clearest(one, other, delta=loss, confidence=sure, gaussian=gaussian)
        with_it, without = with_it[1::2], without[1::2]
    else:
        cut = level(threshold=threshold)
    seen = _Seen(
        missed=int(np.count_nonzero(with_it < cut)),
        with_it=with_it.size,
        alarms=int(np.count_nonzero(without >= cut)),
        without=without.size,
    )
    mu = seen.mu(error) if gaussian else None
    return Bound(
        epsilon=seen.epsilon(loss, error)
        if mu is None
        else approx_dp_from_gdp(mu, delta=loss) * (1 - _MARGIN),
        delta=loss,
        confidence=sure,
        method="many runs",
        guesses=with_it.size + without.size,
        right=with_it.size - seen.missed + without.size - seen.alarms,
        mu=mu,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """Misses among the runs with the record, false alarms among those without."""

    missed: int
    with_it: int
    alarms: int
    without: int

    def _rates(self, error: float) -> tuple[float, float]:
        return (
            rate_above(self.missed, self.with_it, error=error),
            rate_above(self.alarms, self.without, error=error),
        )

    def epsilon(self, delta: float, error: float) -> float:
        """The larger bound of both directions, 0 where neither says anything."""
        missed, alarms = self._rates(error)
        odds = max((1 - missed - delta) / alarms, (1 - alarms - delta) / missed)
        return max(0.0, math.log(odds) - _MARGIN) if odds > 1 else 0.0

    def mu(self, error: float) -> float:
        """Phi^-1(1 - FP) - Phi^-1(FN), 0 where it is below."""
        missed, alarms = self._rates(error)
        return max(0.0, float(-ndtri(alarms) - ndtri(missed)) - _MARGIN)


def clearest(
    with_it: Floats,
    without: Floats,
    *,
    delta: float,
    confidence: float,
    runs: int | None = None,
    gaussian: bool = False,
) -> float:
    """The threshold with the largest bound if other runs were like these.

    with_it, without: scores of runs of either kind; runs: the number of other runs of a kind, by
    default as many as these. If they are more, half a run is added to the counts, so that an event
    without a run here does not count as impossible.
    """
    return _clearest(with_it, without, delta, confidence, runs, gaussian=gaussian)[1]


def foreseen(
    with_it: Floats, without: Floats, *, delta: float, confidence: float, runs: int
) -> float:
    """The epsilon of that bound, if other runs are like these."""
    return _clearest(with_it, without, delta, confidence, runs, gaussian=False)[0]


def _clearest(
    with_it: Floats,
    without: Floats,
    delta: float,
    confidence: float,
    runs: int | None,
    *,
    gaussian: bool,
) -> tuple[float, float]:
    cuts = np.unique(np.concatenate([with_it, without]))
    if cuts.size > 400:
        cuts = np.unique(np.quantile(cuts, np.linspace(0, 1, 400), method="nearest"))
    below = np.sort(with_it).searchsorted(cuts, side="left")
    above = without.size - np.sort(without).searchsorted(cuts, side="left")
    error = (1 - confidence) / 2

    def scaled(seen: int, of: int) -> tuple[int, int]:
        if runs is None or runs <= of:
            return seen, of
        return min(runs, math.ceil((seen + 0.5) * runs / of)), runs

    def worth(place: int) -> float:
        missed, of_with = scaled(int(below[place]), with_it.size)
        alarms, of_without = scaled(int(above[place]), without.size)
        seen = _Seen(missed=missed, with_it=of_with, alarms=alarms, without=of_without)
        return seen.mu(error) if gaussian else seen.epsilon(delta, error)

    best = max(((worth(place), -place) for place in range(cuts.size)), default=(0.0, 0))
    return best[0], float(cuts[-best[1]])
