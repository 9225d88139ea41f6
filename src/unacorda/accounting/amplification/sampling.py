"""Amplification of (epsilon, delta) by sampling, its inverse, and what it is worth.

The scheme and the neighboring relation go together: Poisson sampling with add/remove, a fixed
size with replacement of one unit, and the guarantee that is amplified is one under that relation.
Never convert to (epsilon, delta), amplify, and then compose: it costs a factor; compose first.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from unacorda.checks import demand, positive
from unacorda.privacy.conversions.arguments import Real, non_negative, share
from unacorda.privacy.enclosure import context, float_down, float_up, mpf


def approx_dp_of_sample(epsilon: Real, *, delta: Real, rate: Real) -> tuple[float, float]:
    r"""(epsilon, delta) of an (epsilon, delta)-DP mechanism that runs on a sample.

    rate: the probability with which a unit is in the sample; where it differs, the largest. For a
    Poisson sample the guarantees are under add/remove; for `size` of `population` units without
    replacement (rate = size / population) under replacement.

    Statement   (log(1 + rate (e^epsilon - 1)), rate delta).
    Bound       upper, rounded up; tight.
    Edges       rate = 1 -> unchanged;  rate = 0 -> (0.0, 0.0).
    Source      Balle, Barthe, Gaboardi 2018, arXiv:1807.01647, Thms. 8 and 9; Steinke 2022,
                arXiv:2210.00597, Thm. 29.

    >>> epsilon, delta = approx_dp_of_sample(1.0, delta=1e-6, rate=0.01)
    >>> round(epsilon, 6), round(delta, 12)
    (0.017037, 1e-08)
    """
    non_negative(epsilon=epsilon)
    share(delta=delta, rate=rate)
    q, mp = mpf(rate), context()
    if rate == 1:
        return float_up(mpf(epsilon)), float_up(mpf(delta))
    return float_up(mp.log1p(q * mp.expm1(mpf(epsilon)))), min(1.0, float_up(q * mpf(delta)))


def pure_of_replaced_sample(epsilon: Real, *, rate: Real) -> float:
    r"""The epsilon, under replacement, of a mechanism on a Poisson sample, from that of one unit.

    epsilon: under add/remove.

    Statement   log((1 - q + q e^epsilon)/(1 - q + q e^-epsilon)), q = rate.
    Bound       upper, rounded up; tight.
    Edges       rate = 1 -> twice epsilon.
    Source      docs/proofs/amplification.md, Section 6.

    >>> round(pure_of_replaced_sample(1.0, rate=0.01), 6)  # twice that of one unit: 0.034074
    0.023378
    """
    non_negative(epsilon=epsilon)
    share(rate=rate)
    return float_up(replaced_response(epsilon, rate=rate)[0])


def approx_dp_of_replaced_sample(epsilon: Real, *, rate: Real) -> float:
    r"""The epsilon under replacement, beside rate delta, from the (epsilon, delta) of one unit.

    epsilon: under add/remove; rate: below 1.

    Statement   log((1 - q + q e^epsilon)/(1 - q)), q = rate: with R the law without either unit,
                P = (1 - q) R + q M <= (1 - q + q e^epsilon) R + q delta and Q >= (1 - q) R.
    Bound       upper, rounded up.
    Edges       rate = 1 -> inf: the mass of two steps is (1 + e^epsilon) delta.
    Source      the statement; docs/proofs/amplification.md, Section 6, for larger delta'.

    >>> round(approx_dp_of_replaced_sample(1.0, rate=0.01), 6)
    0.027087
    """
    non_negative(epsilon=epsilon)
    share(rate=rate)
    if rate == 1:
        return float("inf")
    q, mp = mpf(rate), context()
    return float_up(mp.log1p(q * mp.expm1(mpf(epsilon))) - mp.log(mpf(1 - Fraction(rate))))


def replaced_response(epsilon: Real, *, rate: Real) -> tuple[Any, Any, Any]:
    r"""The worst pair of pure_of_replaced_sample: its largest loss e, P(loss = e), P(loss = 0).

    Statement   with s = 1/(1 + e^epsilon) and u, v the numerator and denominator of the ratio, the
                losses e, 0, -e have the probabilities s u, (1 - 2 s) v, s v.
    Bound       within 2^-150, in the working precision.
    Source      docs/proofs/amplification.md, Section 6.
    """
    mp, q, x = context(), mpf(rate), mpf(epsilon)
    grown, shrunk = mp.log1p(q * mp.expm1(x)), mp.log1p(q * mp.expm1(-x))
    once = mp.exp(-x) / (1 + mp.exp(-x))
    return grown - shrunk, once * mp.exp(grown), mp.tanh(x / 2) * mp.exp(shrunk)


def approx_dp_within_sample(epsilon: Real, *, delta: Real, rate: Real) -> tuple[float, float]:
    r"""The largest (epsilon, delta) that a mechanism may have so that a sample of it keeps these.

    Statement   (log(1 + (e^epsilon - 1)/rate), min(1, delta/rate)).
    Bound       lower, rounded down.
    Edges       rate = 0 -> InvalidParameter.
    Source      the inverse of approx_dp_of_sample.

    >>> round(approx_dp_within_sample(0.5, delta=0, rate=0.01)[0], 6)
    4.187715
    """
    non_negative(epsilon=epsilon)
    share(delta=delta, rate=rate)
    demand(rate != 0, "rate", rate, expected="a number above 0, at most 1")
    q, mp = mpf(rate), context()
    return (
        float_down(mp.log1p(mp.expm1(mpf(epsilon)) / q)),
        min(1.0, float_down(mpf(delta) / q)),
    )


def draws(
    size: int, population: int, *, largest: int = 1000, complete: bool = False
) -> tuple[list[Any], Any, Fraction]:
    r"""How often one unit is among `size` draws with replacement, given that it is at all.

    Returns the probabilities of 1, 2, ... hits in the working precision, that of more hits than
    these together, and the probability p of any. At most `largest` are named, and none beyond where
    the rest is below 2^-100; complete: all are named.

    Statement   C(m,k) n^-k (1 - 1/n)^{m-k} / p, p = 1 - (1 - 1/n)^m, m = size, n = population.
    Bound       the second rounded up; the others, and p, are within 2^-150 of themselves.
    Source      Balle, Barthe, Gaboardi 2018, arXiv:1807.01647, Thm. 10.
    """
    mp = context()
    if population == 1:  # every draw is this unit
        if size > largest and not complete:
            return [mp.mpf(0)], mp.mpf(1), Fraction(1)
        return [mp.mpf(0)] * (size - 1) + [mp.mpf(1)], mp.mpf(0), Fraction(1)
    once = 1 / mpf(Fraction(population))
    missed = mp.exp(size * mp.log1p(-once))
    drawn = -mp.expm1(size * mp.log1p(-once))
    weights: list[Any] = []
    weight, left = missed, drawn
    for k in range(1, size + 1):
        weight = weight * mpf(Fraction(size - k + 1, k)) * once / (1 - once)
        weights.append(weight / drawn)
        left -= weight
        if not complete and (left < mp.ldexp(drawn, -100) or len(weights) == largest):
            break
    rate = Fraction(int(mp.ldexp(drawn, 240)), 1 << 240)
    rest = mp.mpf(0) if complete else max(left, mp.mpf(0)) / drawn + mp.ldexp(1, -150)
    return weights, rest, rate


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingWorth:
    """The cost of sampling in noise, for one pure epsilon.

    Attributes
    ----------
    epsilon, rate
        The epsilon of the sampled mechanism, and the share of the units in the sample.
    base_epsilon
        The epsilon that the mechanism on the sample may have.
    noise_ratio
        The noise of a mean over the whole table, divided by that of a mean over the sample at the
        same guarantee. 1 means that sampling is free; 0.1 means ten times the noise.

    Examples
    --------
    >>> worth = sampling_worth(1.0, rate=0.01)
    >>> round(worth.base_epsilon, 2), round(worth.noise_ratio, 3), worth.free
    (5.15, 0.052, False)
    """

    epsilon: float
    rate: float
    base_epsilon: float
    noise_ratio: float

    @property
    def free(self) -> bool:
        """Whether sampling adds less than a twentieth to the noise."""
        return self.noise_ratio >= 0.95

    @property
    def warning(self) -> str:
        """The cost of sampling in words, for a user."""
        share = f"{self.rate:.3g} of the units"
        if self.free:
            return (
                f"Sampling {share} is nearly free at epsilon={self.epsilon:.3g}: the noise grows "
                f"{1 / self.noise_ratio:.3g}-fold, beside the sampling error."
            )
        return (
            f"Sampling {share} is not free at epsilon={self.epsilon:.3g}: a mean over the sample "
            f"needs {1 / self.noise_ratio:.3g} times the noise of a mean over the whole table at "
            "the same guarantee. Sampling saves privacy only for epsilon well below the rate; "
            "use all rows if you can afford to."
        )


def sampling_worth(epsilon: float, *, rate: float) -> SamplingWorth:
    r"""Compares the noise of a mean over a sample with that over everybody, at one epsilon.

    Statement: base_epsilon = log(1 + (e^epsilon - 1)/rate); the ratio lies in
    [rate/(rate + epsilon), 1] and is at least log(1 + c)/c where epsilon <= c rate.

    Bound: base_epsilon is rounded down; the ratio is for reading.

    Edges: epsilon = 0 or rate outside (0, 1] -> InvalidParameter.

    Source: Steinke 2022, arXiv:2210.00597, Section 6 (the ratio); approx_dp_within_sample.

    Parameters
    ----------
    epsilon
        Of the sampled mechanism, pure, above 0.
    rate
        The share of the units in the sample, above 0, at most 1.

    Returns
    -------
    SamplingWorth
        The ratio rate base_epsilon / epsilon, and a warning in words where sampling is not free.

    Raises
    ------
    InvalidParameter
        For an epsilon or a rate out of range.

    Examples
    --------
    >>> print(sampling_worth(1.0, rate=0.01).warning)  # doctest: +ELLIPSIS
    Sampling 0.01 of the units is not free at epsilon=1: a mean over the sample needs 19.4 times...
    """
    epsilon = positive(epsilon=epsilon)
    base, _ = approx_dp_within_sample(epsilon, delta=0, rate=rate)
    ratio = min(1.0, float(rate) * base / epsilon)
    return SamplingWorth(
        epsilon=float(epsilon), rate=float(rate), base_epsilon=base, noise_ratio=ratio
    )
