"""Private selection: the cost of the best of a random number of runs.

Let f(x) = E x^K, and q, q' the probabilities of one event of a run on two neighbors. The release
has f'(q) times the likelihood of a run. All bounds here are bounds of f'(q)^a f'(q')^{1-a}, or of
f'(q)/f'(q'), over the pairs (q, q') that the privacy of a run allows: docs/proofs/selection.md.
Ties of scores may be broken by any rule that is symmetric in the runs.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Final

from unacorda import checks
from unacorda.balls import Ball, ball, float_up, least
from unacorda.checks import exact
from unacorda.errors import InvalidParameter
from unacorda.numerics import bisect
from unacorda.privacy import conversions
from unacorda.privacy.conversions.arguments import Real
from unacorda.privacy.events import Event, NegativeBinomialTries, PoissonTries
from unacorda.privacy.events.selection import Tries
from unacorda.privacy.rounding import grid_up

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
    checks.demand(eta > -1, "shape", shape, expected="a number above -1")
    if not 1 <= checks.finite(tries=tries) <= _MOST_TRIES:
        raise InvalidParameter("tries", tries, expected="a number from 1 to a million")
    wanted = math.log(tries)
    _, log_stop = bisect(
        lambda at: log_mean_tries(shape=eta, stop=math.exp(at)) <= wanted, -60.0, 0.0, rounds=60
    )
    stop = float(f"{math.exp(log_stop):.6g}")
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
    checks.demand(0 <= level < 1, "level", level, expected="from 0 to below 1")
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


def log_mean_of_tries(event: Tries) -> float:
    """The logarithm of the mean number of runs; negative where it is below 1.

    Bound       upper, rounded up; a cap, which lowers the mean, counts where it is below it.
    Source      log_mean_tries.
    """
    if isinstance(event, PoissonTries):
        return float_up(ball(exact("mean", event.mean)).log())
    uncapped = log_mean_tries(shape=exact("shape", event.shape), stop=exact("stop", event.stop))
    return uncapped if event.most is None else min(uncapped, float_up(ball(event.most).log()))


def pure_of_tries(event: Tries, epsilon: Fraction) -> Fraction:
    r"""The pure epsilon of the best of K runs, from that of one run; a multiple of 2^-80.

    Statement   epsilon + (1 + eta) log((e^eps + gamma) / (1 + gamma e^eps)) for the truncated
                negative binomial law, epsilon + mean tanh(epsilon/2) for the Poisson law.
    Bound       upper; under a cap at most that of all runs that there can be. For the first law at
                most (2 + eta) epsilon, and near that for a small gamma.
    Edges       stop = 1 -> epsilon.
    Source      Liu and Talwar 2019, arXiv:1811.07971, Thm. 1.3 (3 epsilon, geometric); Papernot
                and Steinke 2022, Cor. 4; docs/proofs/selection.md, Section 2 (with gamma, Poisson).

    >>> from unacorda.privacy.events import Pure
    >>> run = Pure(epsilon=1)
    >>> best = NegativeBinomialTries(event=run, shape=1, stop=1e-9)
    >>> round(float(pure_of_tries(best, Fraction(1))), 6)
    3.0
    >>> round(float(pure_of_tries(PoissonTries(event=run, mean=10), Fraction(1))), 6)
    5.621172
    """
    x = ball(epsilon)
    if isinstance(event, PoissonTries):
        found = x + ball(exact("mean", event.mean)) * (x / 2).tanh()
    elif event.stop == 1:
        return epsilon
    else:
        shape, stop = _law_of(event)
        found = x + (1 + ball(shape)) * _log_ratio(x, ball(stop))
    whole = grid_up(float_up(found))
    return whole if event.most is None else min(whole, epsilon * event.most)


def renyi_of_tries(
    event: Tries,
    divergence: Callable[[Fraction], Real],
    *,
    alpha: Fraction,
    pure: Fraction | None = None,
    delta: Callable[[float], float] | None = None,
) -> Fraction:
    r"""The Renyi divergence of the best of K runs, from the divergences of one run at all orders.

    divergence: an upper bound, in both directions, of that of one run at any order above 1; pure:
    the epsilon of one run, or None; delta: a further bound of the delta of one run, besides those
    from its divergences and its epsilon.

    Statement   the least of renyi_from_pure of pure_of_tries, and, of the truncated negative
                binomial law, D_a + log E[K] / (a-1) + the least of
                (1+eta) ((1 - 1/b) D_b + log(1/gamma)/b) over the orders b of INNER_ORDERS and
                b = 1, and, for pure runs, of the supremum of the module over what epsilon allows,
                by w = 1 - q with w = gamma ((a-1) e^eps - a)/((1-gamma) e^eps), cut to
                [0, 1/(1 + e^eps)]; of the Poisson law
                log(e^-mean + mean e^{(a-1) D_a + mean g}) / (a-1), where g is (a-1) delta(eps) at
                e^eps = a/(a-1) or, for pure runs, max(0, ((a-1) e^eps - a)/(1 + e^eps)). Under a
                cap, log(1/P(K <= most)) / (a-1) is added.
    Bound       upper, rounded up; the order b is searched on a grid.
    Edges       stop = 1 -> D_a.
    Source      Papernot and Steinke 2022, arXiv:2110.03620, Thms. 2 and 6, with the chance of K = 0
                as a term of its own (it is not small where the mean is); docs/proofs/selection.md.

    >>> from unacorda.privacy.events import Gaussian
    >>> run = Gaussian(noise_multiplier=2)  # of twice the sensitivity: D_a = a / 8
    >>> best = NegativeBinomialTries(event=run, shape=0, stop=0.01)
    >>> round(float(renyi_of_tries(best, lambda a: a / 8, alpha=Fraction(10))), 6)
    2.989789
    """
    if isinstance(event, PoissonTries):
        found = _poisson(event, divergence, alpha=alpha, pure=pure, delta=delta)
    elif event.stop == 1:
        return Fraction(divergence(alpha))
    else:
        found = _negative_binomial(event, divergence, alpha=alpha, pure=pure)
    if pure is not None:
        whole = pure_of_tries(event, pure)
        found = min(found, conversions.renyi_from_pure(whole, alpha=alpha))
    return Fraction(found)


def _negative_binomial(
    event: NegativeBinomialTries,
    divergence: Callable[[Fraction], Real],
    *,
    alpha: Fraction,
    pure: Fraction | None,
) -> float:
    shape, stop = _law_of(event)
    own, b = ball(divergence(alpha)), ball(alpha - 1)
    log_stop, once = ball(stop).log(), 1 + ball(shape)
    grown = [-log_stop]
    for inner in INNER_ORDERS:
        d = ball(divergence(inner))
        grown.append(ball(1 - 1 / inner) * d - log_stop / ball(inner))
    cut = _cut(event)
    if pure is not None and cut is not None:
        grown.append((_pure_growth(ball(pure), ball(stop), b) + cut / once) / b)
    return float_up(own + once * least(grown) + _log_mean(shape, stop) / b)


def _poisson(
    event: PoissonTries,
    divergence: Callable[[Fraction], Real],
    *,
    alpha: Fraction,
    pure: Fraction | None,
    delta: Callable[[float], float] | None,
) -> float:
    b, mu = ball(alpha - 1), ball(exact("mean", event.mean))
    near = math.log1p(float(1 / (alpha - 1))) * (1 - 1e-12)
    growth = b * ball(_least_delta(divergence, near, pure=pure, delta=delta))
    if pure is not None:
        x = ball(pure)
        # ((a-1) e^x - a)/(1 + e^x), without overflow
        lean = (b - (1 + b) * (-x).exp()) / (1 + (-x).exp())
        growth = growth.min(lean.max(0))
    top = b * ball(divergence(alpha)) + mu * growth + mu.log()
    # log(e^-mu + e^top), by the larger of both
    high, low = top.max(-mu), top.min(-mu)
    cut = _cut(event)
    assert cut is not None  # of a Poisson law
    return max(0.0, float_up((high + (low - high).exp().log1p() + cut) / b))


def _least_delta(
    divergence: Callable[[Fraction], Real],
    epsilon: float,
    *,
    pure: Fraction | None,
    delta: Callable[[float], float] | None,
) -> float:
    """What is known of the delta of one run."""
    rough = {
        inner: conversions.approx_dp_delta_from_renyi_closed(
            divergence(inner), alpha=inner, epsilon=epsilon
        )
        for inner in INNER_ORDERS
    }
    best = min(rough, key=lambda inner: rough[inner])  # the optimal form takes long
    optimal = conversions.approx_dp_delta_from_renyi(divergence(best), alpha=best, epsilon=epsilon)
    known = [rough[best], optimal]
    if pure is not None:
        known.append(conversions.approx_dp_delta_from_pure(pure, epsilon=epsilon))
    if delta is not None:
        known.append(delta(epsilon))
    return min(known)


def without_failure(event: Tries, mass: Fraction, rest: Event) -> tuple[Fraction, Event]:
    r"""The chance that one of K runs fails, and the best run given that none does.

    mass: the chance that one run fails, on any data, and reveals everything; rest: the run if it
    does not.

    Statement   1 - f(1 - mass), f(x) = E x^K; then the parameter `stop` of the negative binomial
                law is gamma + mass (1 - gamma), its shape stays, and the mean of the Poisson law is
                mean (1 - mass).
    Bound       upper, of the chance, rounded up; the laws are exact.
    Source      docs/proofs/selection.md, Section 4; Liu and Talwar 2019, Thm. 3.5, is weaker.

    >>> from unacorda.privacy.events import Pure
    >>> run = Pure(epsilon=1)
    >>> best = NegativeBinomialTries(event=run, shape=1, stop=0.01)
    >>> mass, later = without_failure(best, Fraction(1, 10**6), run)
    >>> round(float(mass), 9), float(later.stop)
    (9.999e-05, 0.01000099)
    """
    m = ball(mass)
    if isinstance(event, PoissonTries):
        mean = exact("mean", event.mean)
        failed = min(1.0, float_up(-(-ball(mean) * m).expm1()))
        left = mean * (1 - mass)
        # no mean is left where every run fails: then the rest is never reached
        later = PoissonTries(event=rest, mean=left, most=event.most) if left else rest
        return Fraction(failed), later
    shape, gamma = _law_of(event)
    if mass == 0 or gamma == 1:
        failed = float_up(m)
    else:
        moved = (m * ball((1 - gamma) / gamma)).log1p()
        if shape == 0:
            share = moved / -ball(gamma).log()
        else:
            share = (-ball(shape) * moved).expm1() / (ball(shape) * ball(gamma).log()).expm1()
        failed = min(1.0, float_up(share))
    stop = gamma + mass * (1 - gamma)
    later = NegativeBinomialTries(event=rest, shape=shape, stop=stop, most=event.most)
    return Fraction(failed), later


def log_rest_of_cap(event: Tries) -> float:
    """The logarithm of 1 / P(K <= most): 0 without a cap, inf where no bound is known.

    Statement   P(K > most) <= f(t) t^-(most + 1), for one t > 1.
    Bound       upper; of a Poisson law at most log 2, as the mean is at most the cap.
    Source      Chernoff's bound; Choi 1994 (the median).
    """
    found = _cut(event)
    return math.inf if found is None else float_up(found)


def _cut(event: Tries) -> Ball | None:
    """log(1 / P(K <= most)); None where no bound is known."""
    most = event.most
    if most is None or (isinstance(event, NegativeBinomialTries) and event.stop == 1):
        return ball(0.0)
    beyond = ball(most + 1)
    if isinstance(event, PoissonTries):
        mu = ball(exact("mean", event.mean))
        found = _minus_log_of_rest(beyond - mu - beyond * (beyond / mu).log())
        return ball(2).log() if found is None else found.min(ball(2).log())
    eta, gamma = (ball(one) for one in _law_of(event))
    once = eta.max(1)
    left = once / (beyond + once)  # 1 - (1 - gamma) t, about where the bound is least
    log_t = ((1 - left) / (1 - gamma)).log()
    if not log_t > 0:
        return None
    if eta == 0:
        log_f = (left.log() / gamma.log()).log()
    else:
        log_f = ((-eta * left.log()).expm1() / (-eta * gamma.log()).expm1()).log()
    return _minus_log_of_rest(log_f - beyond * log_t)


def _law_of(event: NegativeBinomialTries) -> tuple[Fraction, Fraction]:
    """Shape and stop, exactly."""
    return exact("shape", event.shape), exact("stop", event.stop)


def _law(shape: Real, stop: Real) -> None:
    checks.demand(-1 < shape < math.inf, "shape", shape, expected="a finite number above -1")
    checks.demand(0 < stop <= 1, "stop", stop, expected="a number above 0, at most 1")


def _minus_log_of_rest(log_mass: Ball) -> Ball | None:
    """-log(1 - mass), or None where the mass is not below 1."""
    return -(-log_mass.exp()).log1p() if log_mass < 0 else None


def _log_mean(shape: Real, stop: Real) -> Ball:
    if stop == 1:
        return ball(0.0)
    eta = ball(shape)
    odds = ball((1 - Fraction(stop)) / Fraction(stop))
    log_stop = -odds.log1p()
    mean = odds / -log_stop if shape == 0 else odds * eta / -(eta * log_stop).expm1()
    return mean.max(1).log()


def _log_ratio(x: Ball, gamma: Ball) -> Ball:
    """log((e^x + gamma)/(1 + gamma e^x)) = log(1 + (1-gamma)(e^x - 1)/(1 + gamma e^x))."""
    return ((1 - gamma) * -(-x).expm1() / ((-x).exp() + gamma)).log1p()


def _pure_growth(x: Ball, gamma: Ball, b: Ball) -> Ball:
    """The supremum of log gamma - a log u + (a-1) log u', u' at e^x w."""
    shrink, rest = (-x).exp(), 1 - gamma
    best = gamma * (b - (1 + b) * shrink) / rest
    w = best.max(0).min(shrink / (1 + shrink))
    # as logarithms of u/gamma and u'/gamma: no large terms cancel
    lower, upper = (rest * w / gamma).log1p(), (rest * w / (gamma * shrink)).log1p()
    return (b * upper - (1 + b) * lower).max(0)
