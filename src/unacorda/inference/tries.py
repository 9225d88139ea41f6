r"""What each run may spend so that the best of a random number of them costs the whole budget.

Every run is mu-GDP, so that it is no better to tell from than normal noise; the best of K such runs
is priced by the accountant, and mu is the largest that it lets pass.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from unacorda import checks
from unacorda.accounting.calibration.calibrate import calibrate
from unacorda.errors import InvalidParameter
from unacorda.privacy import events
from unacorda.privacy.guarantees import GDP, ApproxDP, Guarantee, RenyiDP
from unacorda.privacy.neighbors import ReplaceOne

__all__ = ["Runs", "runs_within", "stop_of"]

_TOLERANCE: Final = 1e-3
_MOST: Final = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """What one run may spend, and the event of the best of them."""

    each: GDP
    event: events.NegativeBinomialTries


@lru_cache(maxsize=64)
def runs_within(budget: Guarantee, *, shape: float, tries: float) -> Runs:
    """Runs of the truncated negative binomial law, whose best keeps the budget.

    shape: eta, above -1; tries: the mean number of runs, 1 or more. InvalidParameter for GDP and
    zCDP, in which no theorem prices the best of such runs, and for pure budgets.
    Bound       upper: the event is priced under the replacement of one row, within the budget.
    Source      Papernot and Steinke 2022, arXiv:2110.03620, Theorem 2; docs/proofs/selection.md.

    >>> runs = runs_within(RenyiDP(8, 2), shape=1.0, tries=20.0)
    >>> round(runs.each.mu, 2), runs.event.stop
    (0.27, 0.05)
    """
    if not isinstance(budget, RenyiDP) and not (isinstance(budget, ApproxDP) and budget.delta):
        raise InvalidParameter(
            "budget",
            budget,
            expected="ApproxDP with a delta or RenyiDP, such as ApproxDP(1, 1e-6): the best of a "
            "random number of runs with normal noise has no price in another kind",
        )
    stop = stop_of(shape=shape, tries=tries)

    def best(noise: float) -> events.NegativeBinomialTries:
        run = events.Gaussian(noise_multiplier=noise)
        return events.NegativeBinomialTries(event=run, shape=shape, stop=stop)

    try:
        noise = calibrate(best, target=budget, neighbors=ReplaceOne, tolerance=_TOLERANCE)
    except InvalidParameter:
        raise InvalidParameter(
            "budget",
            budget,
            expected=f"more epsilon, a larger alpha, or fewer tries than {tries:g}: the choice "
            "among runs costs more than this whatever the noise of a run is",
        ) from None
    return Runs(each=GDP.from_squared(1 / checks.exact("noise", noise) ** 2), event=best(noise))


def stop_of(*, shape: float, tries: float) -> float:
    """The gamma with which the truncated negative binomial law has this mean, to six digits.

    Source: Papernot and Steinke 2022, Definition 1.

    >>> stop_of(shape=1.0, tries=20.0), stop_of(shape=0.0, tries=1.0)
    (0.05, 1.0)
    """
    eta = checks.finite(shape=shape)
    if eta <= -1:
        raise InvalidParameter("shape", shape, expected="a number above -1")
    if not 1 <= checks.finite(tries=tries) <= _MOST:
        raise InvalidParameter("tries", tries, expected="a number from 1 to a million")
    low, high = -60.0, 0.0  # of log gamma
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if _mean(middle, eta) > tries else (low, middle)
    stop = float(f"{math.exp(high):.6g}")
    if not 0 < stop <= 1 or _mean(math.log(stop), eta) < tries * 0.99:
        raise InvalidParameter(
            "tries", tries, expected=f"fewer: a law of shape {shape} has no such mean here"
        )
    return stop


def _mean(log_stop: float, eta: float) -> float:
    """E K; 1 at gamma = 1."""
    if log_stop > -1e-9:
        return 1.0
    odds = math.expm1(-log_stop)
    if abs(eta * log_stop) < 1e-12:
        return odds / -log_stop
    return odds * eta / -math.expm1(eta * log_stop)
