"""Amplification of (epsilon, delta) by sampling, its inverse, and what it is worth.

The scheme and the neighboring relation go together: Poisson sampling with add/remove, a fixed
size with replacement of one unit, and the guarantee that is amplified is one under that relation.
Never convert to (epsilon, delta), amplify, and then compose: it costs a factor; compose first.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from unacorda.balls import Ball, ball, float_down, float_up, fraction_up
from unacorda.checks import demand, positive
from unacorda.privacy.conversions.arguments import Real, non_negative, share

_FAR: Final = 1e6


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
    q = ball(rate)
    if rate == 1:
        return float_up(ball(epsilon)), float_up(ball(delta))
    return float_up(_log_mixture(q, ball(epsilon))), min(1.0, float_up(q * ball(delta)))


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
    q = ball(rate)
    return float_up(_log_mixture(q, ball(epsilon)) - ball(1 - Fraction(rate)).log())


def replaced_response(epsilon: Real, *, rate: Real) -> tuple[Ball, Ball, Ball]:
    r"""The worst pair of pure_of_replaced_sample: its largest loss e, P(loss = e), P(loss = 0).

    Statement   with s = 1/(1 + e^epsilon) and u, v the numerator and denominator of the ratio, the
                losses e, 0, -e have the probabilities s u, (1 - 2 s) v, s v.
    Bound       balls that hold them.
    Source      docs/proofs/amplification.md, Section 6.
    """
    q, x = ball(rate), ball(epsilon)
    grown, shrunk = _log_mixture(q, x), _log_mixture(q, -x)
    once = (-x).exp() / (1 + (-x).exp())
    return grown - shrunk, once * grown.exp(), (x / 2).tanh() * shrunk.exp()


def _log_mixture(q: Ball, x: Ball) -> Ball:
    """log(1 + q (e^x - 1)), also where Arb knows nothing of e^x."""
    if q.is_zero():
        return q
    if x > _FAR:
        return x + (q + (1 - q) * (-x).exp()).log()
    return (q * x.expm1()).log1p()


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
    q = ball(rate)
    return (
        float_down(_log_mixture(1 / q, ball(epsilon))),
        min(1.0, float_down(ball(delta) / q)),
    )


def draws(
    size: int, population: int, *, largest: int = 1000, complete: bool = False
) -> tuple[list[Ball], Ball, Fraction]:
    r"""How often one unit is among `size` draws with replacement, given that it is at all.

    Returns the probabilities of 1, 2, ... hits, that of more hits than these together, and the
    probability p of any. At most `largest` are named, and none beyond where the rest is below
    2^-100; complete: all are named.

    Statement   C(m,k) n^-k (1 - 1/n)^{m-k} / p, p = 1 - (1 - 1/n)^m, m = size, n = population.
    Bound       balls that hold them, the second of a bound from above; p is in the middle of one.
    Source      Balle, Barthe, Gaboardi 2018, arXiv:1807.01647, Thm. 10.
    """
    if population == 1:  # every draw is this unit
        if size > largest and not complete:
            return [ball(0)], ball(1), Fraction(1)
        return [ball(0)] * (size - 1) + [ball(1)], ball(0), Fraction(1)
    once = 1 / ball(Fraction(population))
    missed = (size * (-once).log1p()).exp()
    drawn = -(size * (-once).log1p()).expm1()
    weights: list[Ball] = []
    weight, left = missed, drawn
    for k in range(1, size + 1):
        weight = weight * ball(Fraction(size - k + 1, k)) * once / (1 - once)
        weights.append(weight / drawn)
        left -= weight
        if not complete and (left < drawn * 2.0**-100 or len(weights) == largest):
            break
    rest = ball(0) if complete else left.max(0) / drawn + 2.0**-150
    return weights, rest, fraction_up(drawn.mid())


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
