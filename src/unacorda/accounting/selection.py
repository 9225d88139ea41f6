"""Private selection: what the best of a random number of runs costs, from what one run costs.

With f(x) = E x^K and q, q' the probabilities of one event of a run on two neighbors, the release
has the likelihood f'(q) times that of a run. All bounds here are bounds of f'(q)^a f'(q')^{1-a}, or
of f'(q)/f'(q'), over the pairs (q, q') that the privacy of a run allows: docs/proofs/selection.md.
Ties of scores may be broken by any rule that treats the runs alike.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

from unacorda import checks
from unacorda.errors import InvalidParameter
from unacorda.privacy.conversions.arguments import Real, non_negative, order, share
from unacorda.privacy.enclosure import context, float_up, mpf, sum_up

_MOST_TRIES: Final = 1e6

INNER_ORDERS = tuple(1 + Fraction(2.0 ** (k / 2)).limit_denominator(64) for k in range(-8, 29))
"""Orders at which the divergence of a run is asked beside the order in question: each is valid."""


def log_mean_tries(*, shape: Real, stop: Real) -> float:
    r"""The logarithm of the mean number of tries of the truncated negative binomial law.

    Statement   log(eta (1-gamma) / (gamma (1 - gamma^eta))); at eta = 0 the limit
                log((1/gamma - 1) / log(1/gamma)); eta = shape, gamma = stop.
    Bound       upper, rounded up.
    Edges       stop = 1 -> 0.0.
    Source      Papernot and Steinke 2022, arXiv:2110.03620, Definition 1.

    >>> round(log_mean_tries(shape=1, stop=0.01), 6)  # log 100
    4.60517
    """
    _law(shape, stop)
    return float_up(_log_mean(shape, stop))


def stop_of(*, shape: float, tries: float) -> float:
    """The gamma with which the truncated negative binomial law has this mean, to six digits.

    Bound       none: the law of this gamma is what is drawn and priced.
    Source      Papernot and Steinke 2022, arXiv:2110.03620, Definition 1.

    >>> stop_of(shape=1.0, tries=20.0), stop_of(shape=0.0, tries=1.0)
    (0.05, 1.0)
    """
    eta = checks.finite(shape=shape)
    if eta <= -1:
        raise InvalidParameter("shape", shape, expected="a number above -1")
    if not 1 <= checks.finite(tries=tries) <= _MOST_TRIES:
        raise InvalidParameter("tries", tries, expected="a number from 1 to a million")
    low, high, wanted = -60.0, 0.0, math.log(tries)  # of log gamma
    for _ in range(60):
        middle = (low + high) / 2
        more = log_mean_tries(shape=eta, stop=math.exp(middle)) > wanted
        low, high = (middle, high) if more else (low, middle)
    stop = float(f"{math.exp(high):.6g}")
    if not 0 < stop <= 1 or log_mean_tries(shape=eta, stop=stop) < wanted + math.log(0.99):
        raise InvalidParameter(
            "tries", tries, expected=f"fewer: a law of shape {shape} has no such mean here"
        )
    return stop


def tries_quantile(*, shape: float, stop: float, level: float) -> int:
    """The least k with P(K <= k) of `level` or more, K truncated negative binomial.

    Bound       none: for display, to within rounding.
    Source      Papernot and Steinke 2022, arXiv:2110.03620, Definition 1.

    >>> tries_quantile(shape=1.0, stop=0.1, level=0.99)
    44
    """
    _law(shape, stop)
    if not 0 <= level < 1:
        raise InvalidParameter("level", level, expected="from 0 to below 1")
    if stop == 1:
        return 1
    log_stop = math.log(stop)
    total = -log_stop if shape == 0 else math.expm1(-shape * log_stop) / shape
    number, mass = 1, (1 - stop) / total
    below = mass
    while below < level and mass > 0:
        mass *= (1 - stop) * (number + shape) / (number + 1)
        number += 1
        below += mass
    return number


def pure_of_negative_binomial_tries(epsilon: Real, *, shape: Real, stop: Real) -> float:
    r"""The pure epsilon of the best of K runs, K truncated negative binomial, of epsilon each.

    Statement   epsilon + (1 + eta) log((e^eps + gamma) / (1 + gamma e^eps)).
    Bound       upper, rounded up; at most (2 + eta) epsilon, and near that for a small gamma.
    Edges       stop = 1 -> epsilon.
    Source      Liu and Talwar 2019, arXiv:1811.07971, Thm. 1.3 (3 epsilon, geometric); Papernot
                and Steinke 2022, Cor. 4; docs/proofs/selection.md, Section 2 (with gamma).

    >>> round(pure_of_negative_binomial_tries(1.0, shape=1, stop=1e-9), 6)
    3.0
    """
    non_negative(epsilon=epsilon)
    _law(shape, stop)
    x, gamma = mpf(epsilon), mpf(stop)
    return float_up(x + (1 + mpf(shape)) * _log_ratio(x, gamma))


def pure_of_poisson_tries(epsilon: Real, *, mean: Real) -> float:
    r"""The pure epsilon of the best of K runs, K Poisson, of epsilon each.

    Statement   epsilon + mean tanh(epsilon/2).
    Bound       upper, rounded up.
    Source      docs/proofs/selection.md, Section 2.

    >>> round(pure_of_poisson_tries(1.0, mean=10), 6)
    5.621172
    """
    non_negative(epsilon=epsilon, mean=mean)
    return float_up(mpf(epsilon) + mpf(mean) * context().tanh(mpf(epsilon) / 2))


def renyi_of_negative_binomial_tries(
    divergence: Callable[[Fraction], Real],
    *,
    pure: Real | None,
    shape: Real,
    stop: Real,
    alpha: Real,
    most: int | None = None,
) -> float:
    r"""Renyi divergence of the best of K runs, K truncated negative binomial.

    divergence: an upper bound, in both directions, of that of one run at any order above 1; pure:
    the epsilon of one run, None where there is none; most: where K is drawn until it is at most
    that.

    Statement   D_a + log E[K] / (a-1) + the least of (1+eta) ((1 - 1/b) D_b + log(1/gamma)/b) over
                the orders b of INNER_ORDERS and b = 1, and, for pure runs, of the supremum of the
                module over what epsilon allows, by w = 1 - q with
                w = gamma ((a-1) e^eps - a)/((1-gamma) e^eps), cut to [0, 1/(1 + e^eps)];
                under a cap, log(1/P(K <= most)) / (a-1) is added to this supremum.
    Bound       upper, rounded up; the order b is searched on a grid, P(K > most) by Chernoff.
    Edges       stop = 1 -> D_a.
    Source      Papernot and Steinke 2022, arXiv:2110.03620, Thm. 2; docs/proofs/selection.md.

    >>> round(
    ...     renyi_of_negative_binomial_tries(
    ...         lambda a: a / 8, pure=None, shape=0, stop=0.01, alpha=10
    ...     ),
    ...     6,
    ... )  # Gaussian noise of twice the sensitivity
    2.989789
    """
    _law(shape, stop)
    order(alpha)
    own = mpf(divergence(Fraction(alpha)))
    if stop == 1:
        return float_up(own)
    mp, b = context(), mpf(Fraction(alpha) - 1)
    log_stop, once = mp.log(mpf(stop)), 1 + mpf(shape)
    grown = [-log_stop]
    for inner in INNER_ORDERS:
        d = mpf(divergence(inner))
        grown.append(mpf(1 - 1 / inner) * d - log_stop / mpf(inner))
    cut = cut_of_negative_binomial_tries(mpf(shape), mpf(stop), most)
    if pure is not None and cut is not None:
        grown.append((_pure_growth(mpf(pure), mpf(stop), b) + cut / once) / b)
    return float_up(own + once * min(grown) + _log_mean(shape, stop) / b)


def renyi_of_poisson_tries(
    divergence: Callable[[Fraction], Real],
    *,
    delta: Callable[[float], float],
    pure: Real | None,
    mean: Real,
    alpha: Real,
    most: int | None = None,
) -> float:
    r"""Renyi divergence of the best of K runs, K Poisson; no output where K = 0.

    divergence, pure, most: as for renyi_of_negative_binomial_tries, most no less than the mean;
    delta: an upper bound of the delta of one run at an epsilon.

    Statement   log(e^-mean + mean e^{(a-1) D_a + mean g}) / (a-1), where g is (a-1) delta(eps) at
                e^eps = a/(a-1) or, for pure runs, max(0, ((a-1) e^eps - a)/(1 + e^eps)); under a
                cap, log(1/P(K <= most)) / (a-1) is added.
    Bound       upper, rounded up; P(K > most) by Chernoff's bound and by the median (Choi 1994).
    Source      Papernot and Steinke 2022, arXiv:2110.03620, Thm. 6, with the chance of K = 0 as a
                term of its own (it is not small where the mean is).

    >>> round(
    ...     renyi_of_poisson_tries(
    ...         lambda a: a / 200, delta=lambda epsilon: 1e-3, pure=None, mean=20, alpha=5
    ...     ),
    ...     6,
    ... )
    0.793933
    """
    non_negative(mean=mean)
    order(alpha)
    mp, b, mu = context(), mpf(Fraction(alpha) - 1), mpf(mean)
    near = math.log1p(float(1 / (Fraction(alpha) - 1)))
    growth = b * mpf(delta(near * (1 - 1e-12)))
    if pure is not None:
        x = mpf(pure)
        # ((a-1) e^x - a)/(1 + e^x), without overflow
        lean = (b - (1 + b) * mp.exp(-x)) / (1 + mp.exp(-x))
        growth = min(growth, max(lean, mpf(0.0)))
    top = b * mpf(divergence(Fraction(alpha))) + mu * growth + mp.log(mu)
    # log(e^-mu + e^top), by the larger of both
    high, low = max(top, -mu), min(top, -mu)
    cut = cut_of_poisson_tries(mu, most)
    return sum_up([high / b, mp.log1p(mp.exp(low - high)) / b, cut / b])


def failure_of_negative_binomial_tries(
    mass: Real, *, shape: Real, stop: Real
) -> tuple[float, Fraction]:
    r"""The chance that one of K runs fails, and the parameter `stop` of K given that none does.

    mass: the chance that one run fails, whatever its data: then everything may be learned.

    Statement   (1 - f(1 - mass), gamma + mass (1 - gamma)), f(x) = E x^K; the shape stays.
    Bound       upper, rounded up, and exact.
    Edges       mass = 0 -> (0.0, stop).
    Source      docs/proofs/selection.md, Section 4; Liu and Talwar 2019, Thm. 3.5, is weaker.

    >>> mass, stop = failure_of_negative_binomial_tries(1e-6, shape=1, stop=0.01)
    >>> round(mass, 9), float(stop)
    (9.999e-05, 0.01000099)
    """
    share(mass=mass)
    _law(shape, stop)
    gamma, m = Fraction(stop), Fraction(mass)
    later = gamma + m * (1 - gamma)
    if m == 0 or gamma == 1:
        return float_up(mpf(m)), later
    mp, eta = context(), mpf(shape)
    moved = mp.log1p(mpf(m) * mpf((1 - gamma) / gamma))
    if shape == 0:
        failed = moved / -mp.log(mpf(gamma))
    else:
        failed = mp.expm1(-eta * moved) / mp.expm1(eta * mp.log(mpf(gamma)))
    return min(1.0, float_up(failed)), later


def failure_of_poisson_tries(mass: Real, *, mean: Real) -> tuple[float, Fraction]:
    r"""The chance that one of K runs fails, and the mean of K given that none does.

    Statement   (1 - e^{-mean mass}, mean (1 - mass)).
    Bound       upper, rounded up, and exact.
    Source      docs/proofs/selection.md, Section 4.
    """
    share(mass=mass)
    non_negative(mean=mean)
    failed = -context().expm1(-mpf(mean) * mpf(mass))
    return min(1.0, float_up(failed)), Fraction(mean) * (1 - Fraction(mass))


def _law(shape: Real, stop: Real) -> None:
    if not -1 < shape < math.inf:
        raise InvalidParameter("shape", shape, expected="a finite number above -1")
    if not 0 < stop <= 1:
        raise InvalidParameter("stop", stop, expected="a number above 0, at most 1")


def cut_of_negative_binomial_tries(eta: Any, gamma: Any, most: int | None) -> Any:
    """Bounds log(1 / P(K <= most)); None where no bound is known.

    Statement   P(K > most) <= f(t) t^-(most + 1), for one t > 1.
    Bound       upper.
    Source      Chernoff's bound.
    """
    mp = context()
    if most is None:
        return mpf(0.0)
    beyond, once = mpf(most + 1), max(eta, mpf(1))
    left = once / (beyond + once)  # 1 - (1 - gamma) t, about where the bound is least
    log_t = mp.log((1 - left) / (1 - gamma))
    if log_t <= 0:
        return None
    if eta == 0:
        log_f = mp.log(mp.log(left) / mp.log(gamma))
    else:
        log_f = mp.log(mp.expm1(-eta * mp.log(left)) / mp.expm1(-eta * mp.log(gamma)))
    return _minus_log_of_rest(log_f - beyond * log_t)


def cut_of_poisson_tries(mu: Any, most: int | None) -> Any:
    """Bounds log(1 / P(K <= most)): at most log 2, as the mean is at most the cap.

    Bound       upper.
    Source      Chernoff's bound; Choi 1994 (the median).
    """
    mp = context()
    if most is None:
        return mpf(0.0)
    if mu > most:
        raise InvalidParameter("most", most, expected="the mean or above")
    beyond = mpf(most + 1)
    found = _minus_log_of_rest(beyond - mu - beyond * mp.log(beyond / mu))
    half = mp.log(2)
    return half if found is None else min(found, half)


def _minus_log_of_rest(log_mass: Any) -> Any:
    """-log(1 - mass), or None where the mass is not below 1."""
    mp = context()
    return None if log_mass >= 0 else -mp.log1p(-mp.exp(log_mass))


def _log_mean(shape: Real, stop: Real) -> Any:
    mp = context()
    if stop == 1:
        return mpf(0.0)
    eta = mpf(shape)
    odds = mpf((1 - Fraction(stop)) / Fraction(stop))
    log_stop = -mp.log1p(odds)
    mean = odds / -log_stop if shape == 0 else odds * eta / -mp.expm1(eta * log_stop)
    return mp.log(max(mean, mpf(1.0)))


def _log_ratio(x: Any, gamma: Any) -> Any:
    """log((e^x + gamma)/(1 + gamma e^x)) = log(1 + (1-gamma)(e^x - 1)/(1 + gamma e^x))."""
    mp = context()
    return mp.log1p((1 - gamma) * -mp.expm1(-x) / (mp.exp(-x) + gamma))


def _pure_growth(x: Any, gamma: Any, b: Any) -> Any:
    """The supremum of log gamma - a log u + (a-1) log u', u' at e^x w."""
    mp = context()
    shrink, rest = mp.exp(-x), 1 - gamma
    best = gamma * (b - (1 + b) * shrink) / rest
    w = min(max(best, mpf(0.0)), shrink / (1 + shrink))
    # as logarithms of u/gamma and u'/gamma: no large terms cancel
    lower, upper = mp.log1p(rest * w / gamma), mp.log1p(rest * w / (gamma * shrink))
    return max(b * upper - (1 + b) * lower, mpf(0.0))
