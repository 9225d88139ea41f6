"""Renyi divergences: of finite laws, discrete Laplace noise, samples, and mixtures of Gaussians.

Mixtures of Gaussians, on Poisson samples too, are integrated numerically, as certified upper
bounds. In units of the largest shift z ~ N(0, s^2), and
f(z) = sum of w_i e^{(2 r_i z - r_i^2)/(2 s^2)} with shifts 0 <= r_i <= 1; a sampled Gaussian has
the shifts 0 and 1. The moments are M = E[f^t],
t = a (the mixture over the noise) or t = 1 - a (the other way round). Since E f = 1,
M - 1 = E[g], g = f^t - 1 - t (f - 1) >= 0: the trapezoid rule sums terms of one sign.

What is added to the sum, so that it lies above the integral:

- the error of the rule, at most 2 N / (e^{2 pi d/h} - 1), where N bounds the integral of |g| times
  the density on the lines Im z = +-d, d = u s^2, 0 < u < pi: there |f(z + id)| <= f(z), and
  |f(z + id)| >= f(z) cos(u/2), as all terms lie in a sector of angle u; the density grows by
  e^{d^2/(2 s^2)};
- the nodes left out on both sides, by Gaussian tails;
- the round-off of every term, from the sizes of its own parts.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from flint import arb

from unacorda.accounting.amplification.sampling import draws
from unacorda.accounting.laws import Finite, of_discrete_laplace, of_points, staircase_top
from unacorda.balls import Ball, ball, float_up, greatest
from unacorda.checks import exact
from unacorda.privacy.conversions.arguments import Real, cached
from unacorda.privacy.events import GaussianMixture
from unacorda.privacy.rounding import float_above

_LARGEST_SHIFT = 64


def renyi_of_law(law: Finite, *, alpha: Real) -> float:
    r"""Renyi divergence of a pair with a symmetric law of finitely many losses.

    Statement   log(1 + sum over losses l > 0 of P(l) (e^{b l} - 1) (1 - e^{-a l}))/b, b = a - 1:
                the terms of l and -l together, which are positive.
    Bound       upper, rounded up; exact.
    Source      the definition, with P(-l) = e^{-l} P(l).

    >>> from unacorda.accounting.laws import of_points
    >>> round(renyi_of_law(of_points(Fraction(1), 2), alpha=2), 6)
    0.735326
    """
    most = max(law.masses)  # no divergence is larger than the largest loss
    return min(float_up(_divergence(law, ball(Fraction(alpha) - 1))), float_up(ball(most)))


def _divergence(law: Finite, b: Ball) -> Ball:
    losses = [(ball(loss), mass) for loss, mass in law.masses.items() if loss > 0]
    above = sum((mass * (b * x).expm1() * -(-(b + 1) * x).expm1() for x, mass in losses), ball(0))
    return above.log1p() / b


@cached
def renyi_of_discrete_laplace(scale: Real, *, sensitivity: Real, alpha: Real) -> float:
    r"""Renyi divergence of integers with two-sided geometric noise, P(k) ~ e^{-|k|/scale}.

    Statement   for one coordinate renyi_of_law; for several, the worst way to share the l1
                sensitivity out in whole numbers. Above 64 the bound of pure DP.
    Bound       upper, rounded up; exact for one coordinate.
    Edges       sensitivity below 1 -> 0.0: integers that move by less do not move.
    Source      the definition, summed as geometric series.

    >>> round(renyi_of_discrete_laplace(1.0, sensitivity=1, alpha=2), 6)
    0.735326
    """
    shift, rate, b = int(sensitivity), 1 / Fraction(scale), ball(Fraction(alpha) - 1)
    if shift > _LARGEST_SHIFT:
        return renyi_of_law(of_points(shift * rate, 2), alpha=alpha)
    best = [ball(0.0)]
    alone = [_divergence(of_discrete_laplace(rate, m), b) for m in range(shift + 1)]
    for moved in range(1, shift + 1):
        best.append(greatest(best[moved - m] + alone[m] for m in range(1, moved + 1)))
    return min(float_up(best[shift]), float_up(ball(shift * rate)))


@cached
def renyi_of_sampled_pure(epsilon: Real, *, rate: Real, alpha: Real) -> float:
    r"""Renyi divergence, under add/remove, of an epsilon-DP mechanism on a Poisson sample.

    Statement   the larger of D_a(qP + (1-q)Q || Q) and D_a(Q || qP + (1-q)Q) for the coins
                P = (s, 1-s), Q = (1-s, s), s = e^eps/(1 + e^eps): every epsilon-DP pair is a
                post-processing of that pair, hence its mixture is one of this mixture.
    Bound       upper, rounded up; tight (binary randomised response).
    Edges       epsilon = 0 or rate = 0 -> 0.0;  rate = 1 -> renyi_from_pure.
    Source      Kairouz, Oh, Viswanath 2015, Thm. 3.3 (the domination); Steinke 2022, Section 6.
    """
    if epsilon == 0 or rate == 0:
        return 0.0
    x, q = ball(epsilon), ball(rate)
    a, b = ball(alpha), ball(Fraction(alpha) - 1)
    head = 1 / (1 + (-x).exp())
    tail = (-x).exp() * head
    up = (q * x.expm1()).log1p()  # log of the mixture over Q where P is likelier
    down = (q * (-x).expm1()).log1p()
    # E_Q[e^{t L}] - 1 with E_Q[e^L] = 1; both exponents give sums of one sign.
    found = ball(0.0)
    for exponent in (a, -b):
        gain, loss = tail * (exponent * up).expm1(), head * (exponent * down).expm1()
        # The two may cancel to first order in a - 1, of which 256 bits leave enough.
        found = found.max((gain + loss).max(0).log1p() / b)
    return min(float_up(found), float_up(up))


LARGEST_ORDER = 256
"""Above this integer order the sums over all smaller ones are not formed."""


def renyi_of_poisson(divergence: Callable[[int], float], *, rate: Real, alpha: Real) -> float:
    r"""Renyi divergence, under add/remove, of a mechanism on a Poisson sample.

    divergence: an upper bound of D_k(P || Q) and D_k(Q || P) of the mechanism for whole k >= 2.

    Statement   for whole a: log(sum over k of C(a,k) (1-p)^{a-k} p^k e^{(k-1) D_k})/(a - 1) with
                the terms k = 0, 1 without an exponential; between whole orders, (a - 1) D_a is
                convex and is interpolated linearly, from 0 at order 1.
    Bound       upper, rounded up; one direction bounds the other (Thm. 35).
    Edges       alpha above 256 -> inf: use renyi_at_large_orders.
    Source      Steinke 2022, arXiv:2210.00597, Thms. 34 and 35; Zhu and Wang 2019.
    """
    return between_orders(lambda k: _poisson_moment(divergence, ball(rate), k), alpha)


def between_orders(moment: Callable[[int], Ball], alpha: Real) -> float:
    """D_a from (a - 1) D_a at whole orders, between which it is interpolated, from 0 at order 1.

    Bound       upper, rounded up; inf above LARGEST_ORDER.
    Source      van Erven and Harremoes 2014, Thm. 11 (convexity).
    """
    if alpha > LARGEST_ORDER:
        return math.inf
    low, high = math.floor(alpha), math.ceil(alpha)
    weight = ball(Fraction(alpha) - low)
    ends = [moment(k) if k > 1 else ball(0.0) for k in (low, high)]
    between = (1 - weight) * ends[0] + weight * ends[1]
    return float_up(between / ball(Fraction(alpha) - 1))


def _poisson_moment(divergence: Callable[[int], float], rate: Ball, alpha: int) -> Ball:
    """(a - 1) D_a: the log of 1 + sum of C(a,k) (1-p)^{a-k} p^k (e^{(k-1) D_k} - 1)."""
    above = sum(
        (
            math.comb(alpha, k)
            * (1 - rate) ** (alpha - k)
            * rate**k
            * ((k - 1) * ball(divergence(k))).expm1()
            for k in range(2, alpha + 1)
        ),
        ball(0),
    )
    return above.log1p()


def renyi_at_large_orders(divergence: float, *, rate: Real, alpha: Real) -> float:
    r"""Renyi divergence, under add/remove, of a mechanism on a Poisson sample, at any order.

    divergence: an upper bound of D_a of the mechanism, in both directions, at the same order.

    Statement   min(D_a, a/(a-1) log(1 - p + p e^{(a-1) D_a / a})).
    Bound       upper, rounded up; close to the truth for large orders only.
    Edges       divergence = inf -> inf.
    Source      Steinke 2022, arXiv:2210.00597, Prop. 42 (Minkowski's inequality), and Thm. 35;
                the first is quasi-convexity of the divergence.
    """
    if math.isinf(divergence):
        return math.inf
    a, b = ball(alpha), ball(Fraction(alpha) - 1)
    mixed = a / b * (ball(rate) * (b / a * ball(divergence)).expm1()).log1p()
    return min(divergence, float_up(mixed))


def renyi_of_fixed_size(
    divergence: Callable[[int], float], *, largest: float, rate: Real, alpha: Real
) -> float:
    r"""Renyi divergence, under replacement, of a mechanism on a sample without replacement.

    divergence: an upper bound, under replacement, of D_k for whole k >= 2, in both directions;
    largest: of D_infinity, the pure epsilon, or inf; rate: size / population.

    Statement   for whole a: log(1 + p^2 C(a,2) min(4 (e^{D_2} - 1), e^{D_2} m_2) + sum over k > 2
                of p^k C(a,k) e^{(k-1) D_k} m_k)/(a - 1), m_k = min(2, (e^{D_inf} - 1)^k); between
                whole orders interpolated as in renyi_of_poisson. Never above D_a itself.
    Bound       upper, rounded up.
    Edges       alpha above 256 -> inf.
    Source      Wang, Balle, Kasiviswanathan 2019, arXiv:1808.00087, Thm. 9.
    """
    return between_orders(lambda k: _fixed_size_moment(divergence, largest, ball(rate), k), alpha)


def _fixed_size_moment(
    divergence: Callable[[int], float], largest: float, rate: Ball, alpha: int
) -> Ball:
    ratio = ball(largest).expm1()

    def term(k: int) -> Ball:
        d = ball(divergence(k))
        size = ((k - 1) * d).exp() * (ratio**k).min(2)
        if k == 2:
            size = size.min(4 * d.expm1())
        return math.comb(alpha, k) * rate**k * size

    return sum((term(k) for k in range(2, alpha + 1)), ball(0)).log1p()


_MOST_DRAWS = 300
_MOST_TERMS = 2000


def moved_by(event: GaussianMixture) -> Fraction:
    r"""The largest shift that has a weight, in units of the noise: mu of Gaussian DP.

    Statement   max of s_i / sigma over weights above 0.
    Bound       exact: the least mu, as far losses are those of the largest shift alone.
    Source      joint convexity of the profile; docs/proofs/contour.md, section 16.
    """
    noise = exact("noise_multiplier", event.noise_multiplier)
    return max(
        exact("shifts", shift) / noise
        for shift, weight in zip(event.shifts, event.weights, strict=True)
        if weight
    )


def gdp_of_staircase(epsilon: Fraction, split: Fraction) -> Fraction:
    r"""The mu of Gaussian DP of staircase noise.

    Statement   Phi^{-1}(p) - Phi^{-1}(p e^{-eps}): the trade-off curve has the kinks (p e^{-eps},
                1 - p) and its mirror, and lies above a convex curve if its kinks do.
    Bound       upper, rounded up; exact.
    Source      docs/proofs/bounded_range.md, step 2, with one more kink.
    """
    top = staircase_top(epsilon, split)
    low = top * (-ball(epsilon)).exp()
    quantiles = (2 * top - 1).erfinv() + (1 - 2 * low).erfinv()
    return Fraction(float_up(ball(2).sqrt() * quantiles))


def renyi_of_replacement(
    divergence: Callable[[Fraction, int], Fraction],
    *,
    largest: float,
    alpha: Fraction,
    size: int,
    population: int,
) -> float | None:
    r"""Renyi divergence, under replacement, of a mechanism on draws with replacement.

    divergence: an upper bound of D_a, in both directions, where k units are replaced at once, from
    (a, k); largest: of the pure epsilon where all draws are, or inf.

    Statement   the less of log(1 + sum over k > 0 of w_k (e^{(a-1) D_a(k)} - 1)) / (a - 1), w_k the
                binomial probability of k hits, and renyi_of_fixed_size at the rate of any hit, with
                e^{(j-1) D_j} the mean of e^{(j-1) D_j(k)} given a hit.
    Bound       upper, rounded up; None above 300 draws.
    Source      joint convexity of the a-th moment, and of the ternary moments of Wang, Balle,
                Kasiviswanathan 2019, Thm. 9; the coupling of Balle, Barthe, Gaboardi 2018, Thm. 10.
    """
    if size > _MOST_DRAWS:
        return None
    weights, _, rate = draws(size, population, complete=True)

    def mean(order: Fraction) -> Ball:
        b = ball(order - 1)
        return sum(
            (
                weight * (b * ball(divergence(order, k))).expm1()
                for k, weight in enumerate(weights, start=1)
                if not weight.is_zero()
            ),
            ball(0),
        )

    found = [float_up((ball(rate) * mean(alpha)).log1p() / ball(alpha - 1))]
    if alpha * size <= _MOST_TERMS and rate < 1:
        found.append(
            renyi_of_fixed_size(
                lambda j: float_up(mean(Fraction(j)).log1p() / (j - 1)),
                largest=largest,
                rate=rate,
                alpha=alpha,
            )
        )
    return min(found)


_Array = npt.NDArray[np.float64]
_UNIT = 2.0**-53
_DIGITS = 90.0
"""Errors of the rule and of the ends are kept below e^-90, relative."""
_MOST_NODES = 400_000


@cached
def renyi_of_sampled_gaussian(noise_multiplier: Real, *, rate: Real, alpha: Real) -> float:
    r"""Renyi divergence, under add/remove, of a Gaussian mechanism on a Poisson sample.

    noise_multiplier: sigma over the add/remove sensitivity; rate: strictly between 0 and 1.

    Statement   renyi_of_gaussian_mixture of one shift.
    Bound       upper.
    Source      Mironov, Talwar, Zhang 2019, arXiv:1908.10530, Thms. 4 and 5 (the pair).

    >>> round(renyi_of_sampled_gaussian(1.0, rate=0.01, alpha=2), 9)  # log(1 + q^2 (e - 1))
    0.000171813
    """
    one = (Fraction(1),)
    return renyi_of_gaussian_mixture(noise_multiplier, one, one, rate=rate, alpha=alpha)


def renyi_of_gaussian_mixture(
    noise: Real,
    shifts: Sequence[Fraction],
    weights: Sequence[Fraction],
    *,
    rate: Real,
    alpha: Real,
) -> float:
    r"""Renyi divergence of a mixture of Gaussians, on a Poisson sample where rate is below 1.

    noise: their sigma; shifts: 0 or above; weights: of sum 1.

    Statement   the larger of log E[f^a]/(a - 1) and log E[f^{1-a}]/(a - 1), f the likelihood
                ratio of the mixture; see the module.
    Bound       upper: the integral by the trapezoid rule, with its error, the ends and the
                round-off added.
    Edges       no shift -> 0.0; more than 400,000 nodes -> inf: use renyi_at_large_orders.
    Source      the definition; Trefethen and Weideman 2014, Thm. 5.1 (the rule).

    >>> round(renyi_of_gaussian_mixture(2, [Fraction(1)], [Fraction(1)], rate=1, alpha=4), 9)
    0.5
    """
    law = _Mixture.of(noise, shifts, weights, Fraction(rate))
    if law is None:
        return 0.0
    sigma = law.sigma
    a, b = Fraction(alpha), Fraction(alpha) - 1
    # The moments grow with a and with a - 1, and the logarithm is divided by a - 1 itself.
    if float(law.logs[-1]) > -1e-9 or sigma < 1e-3 or sigma > 1e8:
        return float_up(ball(a) / (2 * ball(sigma) ** 2))
    found = 0.0
    for exponent in (float_above(a), -float_above(b)):
        above = _moment_above_one(law, exponent)
        if above is None:
            return math.inf
        found = max(found, float_up(above.log1p() / ball(b)))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mixture:
    """Shifts in units of the largest, ascending; their weights, and logarithms of these.

    sigma: the noise in that unit. The divergence grows with the shifts, with a weight that a
    larger shift takes from a smaller one, and falls with the noise: all are rounded so.
    """

    sigma: float
    shifts: _Array
    weights: _Array
    logs: _Array

    @classmethod
    def of(
        cls, noise: Real, shifts: Sequence[Fraction], weights: Sequence[Fraction], rate: Fraction
    ) -> _Mixture | None:
        """None where nothing is shifted."""
        shares: dict[Fraction, Fraction] = {Fraction(0): 1 - rate}
        for shift, weight in zip(shifts, weights, strict=True):
            shares[shift] = shares.get(shift, Fraction(0)) + rate * weight
        places = sorted(shift for shift, share in shares.items() if share)
        largest = places[-1]
        if not largest:
            return None
        ratio = Fraction(noise) / largest
        sigma = float(ratio)
        logs = [float(ball(shares[place]).log()) for place in places]
        return cls(
            sigma=sigma if Fraction(sigma) <= ratio else math.nextafter(sigma, 0.0),
            shifts=np.array([min(float_above(place / largest), 1.0) for place in places]),
            weights=np.array([float(shares[place]) for place in places]),
            logs=np.array(logs),
        )

    def exponent(self, shift: _Array | float, z: _Array | float) -> _Array:
        """What e is raised to in the term of a shift."""
        return np.asarray(shift * (2 * z - shift) / (2 * self.sigma**2))

    def powers(self, t: float) -> _Array:
        """The logarithm of E of the t-th power of each term's exponential."""
        return np.asarray(t * (t - 1) * self.shifts**2 / (2 * self.sigma**2))


def _plan(law: _Mixture, t: float) -> tuple[float, _Array, float, float] | None:
    """Step and places of the rule, and what the ends and the rule leave out, as logarithms."""
    sigma = law.sigma
    angles = np.pi * np.geomspace(1e-9, 0.95, 120)
    digits = _DIGITS + math.log(2 + 2 * abs(t))
    edge = angles**2 * sigma**2 / 2 + (0.0 if t > 0 else t * np.log(np.cos(angles / 2)))
    steps = 2 * np.pi * angles * sigma**2 / (edge + digits)
    best = int(np.argmax(steps))
    step = float(steps[best])
    spill = math.log(0.5 + step / sigma)
    if t > 0:
        low_r, low_log = math.sqrt(2 * digits), math.log(max(t, 1.0)) + spill
        low = -low_r * sigma
        high_r, high_log = _upper_end(law, t, spill)
        high = t + high_r * sigma
    else:
        # f is at least its first term, and that to the power t is a Gaussian about t r too
        size = t * float(law.logs[0]) + float(law.powers(t)[0])
        low_r, low_log = math.sqrt(2 * (digits + size)), size + spill
        low = t * float(law.shifts[0]) - low_r * sigma
        high_r, high_log = math.sqrt(2 * digits), math.log(-t) + spill
        high = 1 + high_r * sigma
    first, last = math.ceil(low / step), math.floor(high / step)
    if last - first > _MOST_NODES or not math.isfinite(high):
        return None
    left_out = float(np.logaddexp(low_log - low_r**2 / 2, high_log - high_r**2 / 2)) + 1e-9
    rule = math.log(2) - digits + 1e-9  # 2 e^{edge} / (e^{edge + digits} - 1)
    return step, step * np.arange(first, last + 1, dtype=np.float64), left_out, rule


def _upper_end(law: _Mixture, t: float, spill: float) -> tuple[float, float]:
    """An r such that the density times f^t is small beyond z = t + r s; the log of its size.

    Either f^t <= sum of w_i e_i^t (convexity) or f is the last term times 1 plus the ratio of the
    others to it, which falls; e_i^t times the density is at most that of N(t r_i, s^2) times
    e^{t (t - 1) r_i^2/(2 s^2)}.
    """
    powers = law.powers(t)
    convex = float(np.logaddexp.reduce(law.logs + powers))
    shifted, largest = float(powers[-1]), float(law.logs[-1])
    goal = max(0.0, t * largest + shifted) - _DIGITS
    r = math.sqrt(2 * _DIGITS)
    while True:
        logs = law.logs + law.exponent(law.shifts, t + r * law.sigma)
        others = float(np.logaddexp.reduce(logs[:-1], initial=-math.inf)) - float(logs[-1])
        size = min(convex, t * (largest + math.log1p(math.exp(min(700.0, others)))) + shifted)
        size += spill
        size += 1e-9 * (1 + abs(size))
        if size - r**2 / 2 <= goal or r > 1e6:
            return r, size
        r *= 1.1


def _moment_above_one(law: _Mixture, t: float) -> Ball | None:
    """M - 1 from above; None where it takes too many nodes."""
    plan = _plan(law, t)
    if plan is None:
        return None
    step, z, left_out, rule = plan
    sigma = law.sigma
    fall = z**2 / (2 * sigma**2)
    loss, loss_error = _log_ratio(law, z)
    y = t * loss
    scale = max(0.0, float(np.max(y - fall)))
    first, first_error = _above_line(y, abs(t) * loss_error + 4 * _UNIT * np.abs(y), fall, scale)
    second, second_error = _above_line(loss, loss_error, fall, scale)
    terms = first - t * second
    errors = first_error + abs(t) * second_error + 4 * _UNIT * (first + abs(t) * second)
    total = ball(math.fsum(terms)) + ball(math.fsum(errors)) * 1.01 + ball(1e-290)
    unit = ball(step) / (ball(sigma) * (2 * arb.pi()).sqrt())
    above = total.max(0) * unit * ball(scale).exp() + ball(left_out).exp()
    missed = ball(rule).exp()
    # N <= e^{...} (M + 1 + 2|t|) = e^{...} ((M - 1) + 2 + 2|t|); M - 1 is on both sides.
    return (above + missed * (2 + 2 * abs(t))) / (1 - missed)


def _log_ratio(law: _Mixture, z: _Array) -> tuple[_Array, _Array]:
    """Log f and a bound of its error, that of the weights and shifts as floats included."""
    inner, slip = np.zeros_like(z), np.zeros_like(z)
    outer, most = np.full_like(z, -math.inf), np.zeros_like(z)
    for shift, weight, log in zip(law.shifts, law.weights, law.logs, strict=True):
        x = law.exponent(shift, z)
        part = weight * np.expm1(np.minimum(x, 700.0))  # f is 1 plus the sum of these
        inner += part
        slip += 256 * _UNIT * np.abs(part) * (1 + np.abs(x))
        outer = np.logaddexp(outer, log + x)
        most = np.maximum(most, np.abs(x) + abs(log))
    near = (inner >= -2 / 3) & (inner <= 1)  # f is from 1/3 to 2: no cancellation
    terms = 16 * law.weights.size * _UNIT
    value = np.where(near, np.log1p(np.where(near, inner, 0.0)), outer)
    return value, np.where(near, slip, terms * (most + 1))


def _above_line(v: _Array, error: _Array, fall: _Array, scale: float) -> tuple[_Array, _Array]:
    """(e^v - 1 - v) e^{-fall - scale} and a bound of its error, v itself being off by `error`."""
    near = np.abs(v) < 0.5
    small = np.where(near, v, 0.0)
    series = np.ones_like(small)
    for k in range(20, 2, -1):
        series = 1 + small / k * series
    series *= small**2 / 2
    weight = np.exp(-fall - scale)
    grown = np.exp(v - fall - scale)
    value = np.where(near, series * weight, grown - weight * (1 + v))
    size = np.where(near, series * weight, grown + weight * (1 + np.abs(v)))
    slope = np.where(near, 2 * np.abs(small) * weight, grown + weight)
    exponents = 16 + 8 * (fall + scale + np.abs(v))
    return value, size * exponents * _UNIT + slope * error * (1 + error)
