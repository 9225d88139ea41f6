"""Events of private selection: their prices from the price of one run."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from unacorda.accounting.selection import (
    INNER_ORDERS,
    cut_of_negative_binomial_tries,
    cut_of_poisson_tries,
    failure_of_negative_binomial_tries,
    failure_of_poisson_tries,
    log_mean_tries,
    pure_of_negative_binomial_tries,
    pure_of_poisson_tries,
    renyi_of_negative_binomial_tries,
    renyi_of_poisson_tries,
)
from unacorda.checks import exact
from unacorda.privacy import conversions
from unacorda.privacy.conversions.arguments import Real
from unacorda.privacy.enclosure import context, float_up, mpf
from unacorda.privacy.events import Event, NegativeBinomialTries, PoissonTries
from unacorda.privacy.events.selection import Tries
from unacorda.privacy.rounding import grid_up


def log_mean_of_tries(event: Tries) -> float:
    """The logarithm of the mean number of runs; negative where it is below 1.

    Bound       upper, rounded up; a cap, which lowers the mean, counts where it is below it.
    Source      log_mean_tries.
    """
    if isinstance(event, PoissonTries):
        log_mean = context().log(mpf(exact("mean", event.mean)))
        return float_up(log_mean) if log_mean > 0 else float(log_mean) * (1 - 1e-15)
    uncapped = log_mean_tries(shape=exact("shape", event.shape), stop=exact("stop", event.stop))
    return uncapped if event.most is None else min(uncapped, float_up(context().log(event.most)))


def pure_of_tries(event: Tries, epsilon: Fraction) -> Fraction:
    """The pure epsilon of the best run, from that of one run; a multiple of 2^-80.

    Bound       upper; under a cap at most that of all runs that there can be.
    Source      pure_of_negative_binomial_tries, pure_of_poisson_tries.
    """
    if isinstance(event, PoissonTries):
        found = grid_up(pure_of_poisson_tries(epsilon, mean=exact("mean", event.mean)))
    elif event.stop == 1:
        return epsilon
    else:
        shape, stop = exact("shape", event.shape), exact("stop", event.stop)
        found = grid_up(pure_of_negative_binomial_tries(epsilon, shape=shape, stop=stop))
    return found if event.most is None else min(found, epsilon * event.most)


def renyi_of_tries(
    event: Tries,
    divergence: Callable[[Fraction], Real],
    *,
    alpha: Fraction,
    pure: Fraction | None = None,
    delta: Callable[[float], float] | None = None,
) -> Fraction:
    """The Renyi divergence of the best run, from the divergences of one run at all orders.

    pure: the epsilon of one run, None where there is none; delta: a bound of the delta of one run
    beside the one that its divergences and its epsilon give.

    Bound       upper.
    Source      renyi_of_negative_binomial_tries, renyi_of_poisson_tries.
    """
    if isinstance(event, NegativeBinomialTries) and event.stop == 1:
        return Fraction(divergence(alpha))
    if isinstance(event, NegativeBinomialTries):
        found = renyi_of_negative_binomial_tries(
            divergence,
            pure=pure,
            shape=exact("shape", event.shape),
            stop=exact("stop", event.stop),
            alpha=alpha,
            most=event.most,
        )
    else:

        def least(epsilon: float) -> float:
            rough = {
                inner: conversions.approx_dp_delta_from_renyi_closed(
                    divergence(inner), alpha=inner, epsilon=epsilon
                )
                for inner in INNER_ORDERS
            }
            best = min(rough, key=lambda inner: rough[inner])  # the optimal form takes long
            known = [
                rough[best],
                conversions.approx_dp_delta_from_renyi(
                    divergence(best), alpha=best, epsilon=epsilon
                ),
            ]
            if pure is not None:
                known.append(conversions.approx_dp_delta_from_pure(pure, epsilon=epsilon))
            if delta is not None:
                known.append(delta(epsilon))
            return min(known)

        found = renyi_of_poisson_tries(
            divergence,
            delta=least,
            pure=pure,
            mean=exact("mean", event.mean),
            alpha=alpha,
            most=event.most,
        )
    if pure is not None:
        whole = pure_of_tries(event, pure)
        found = min(found, conversions.renyi_from_pure(whole, alpha=alpha))
    return Fraction(found)


def log_rest_of_cap(event: Tries) -> float:
    """The logarithm of 1 / P(K <= most): 0 without a cap, inf where no bound is known.

    Bound       upper.
    Source      Chernoff's bound, for a Poisson law also the median (Choi 1994).
    """
    if isinstance(event, PoissonTries):
        return float_up(cut_of_poisson_tries(mpf(exact("mean", event.mean)), event.most))
    shape, stop = exact("shape", event.shape), exact("stop", event.stop)
    if stop == 1:  # one run
        return 0.0
    found = cut_of_negative_binomial_tries(mpf(shape), mpf(stop), event.most)
    return math.inf if found is None else float_up(found)


def without_failure(event: Tries, mass: Fraction, rest: Event) -> tuple[Fraction, Event]:
    """The chance that a run fails, and the best run given that none does.

    mass: the chance that one run fails and shows everything; rest: the run where it does not.

    Bound       upper, of the chance.
    Source      failure_of_negative_binomial_tries, failure_of_poisson_tries.
    """
    if isinstance(event, PoissonTries):
        failed, mean = failure_of_poisson_tries(mass, mean=exact("mean", event.mean))
        # no mean is left where every run fails: then the rest is never reached
        later = PoissonTries(event=rest, mean=mean, most=event.most) if mean else rest
        return Fraction(failed), later
    shape = exact("shape", event.shape)
    failed, stop = failure_of_negative_binomial_tries(
        mass, shape=shape, stop=exact("stop", event.stop)
    )
    return Fraction(failed), NegativeBinomialTries(
        event=rest, shape=shape, stop=stop, most=event.most
    )
