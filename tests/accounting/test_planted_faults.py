"""The truths find what they are for: faults that are planted in the accountant."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from tests.accounting.truths import TRUTHS
from tests.support.cases import in_subtests
from tests.support.planting import plant

from unacorda import balls
from unacorda.accounting import divergences, filters, findings, laws, matrices, parallel
from unacorda.accounting import selection as prices_of_tries
from unacorda.accounting.amplification import sampling, shuffling
from unacorda.accounting.contour import engine as contour
from unacorda.accounting.contour import parts as contour_parts
from unacorda.accounting.contour import quadrature, sampled_gaussian
from unacorda.accounting.pld import selection, stages
from unacorda.accounting.profiles import (
    allocated,
    amplified,
    bounded_ranges,
    curves,
    draws,
)
from unacorda.accounting.rules import base, composition
from unacorda.privacy import conversions, rounding
from unacorda.privacy.estimates import Interval
from unacorda.privacy.events import PoissonSampled

LESS = 1 - Fraction(1, 10**9)
"""A number that is off by 1e-9."""


def _argument(right: Callable[..., Any], change: Callable[[Any], Any], name: str | int) -> Any:
    """The function, one argument of which another value takes the place of."""

    def wrong(*given: Any, **named: Any) -> Any:
        if isinstance(name, str):
            return right(*given, **{**named, name: change(named[name])})
        return right(*given[:name], change(given[name]), *given[name + 1 :], **named)

    return wrong


def _result(right: Callable[..., Any], change: Callable[[Any], Any]) -> Any:
    return lambda *given, **named: change(right(*given, **named))


Fault = Callable[[pytest.MonkeyPatch], None]


def _put(right: Any, wrong: Any) -> Fault:
    return lambda patch: plant(patch, right, wrong)


def _in(right: Any, name: str | int, change: Callable[[Any], Any]) -> Fault:
    return _put(right, _argument(right, change, name))


def _out(right: Any, change: Callable[[Any], Any]) -> Fault:
    return _put(right, _result(right, change))


def _less(value: Any) -> Any:
    return value * LESS


def _rates_less(parts: Any) -> Any:
    return tuple(
        (dataclasses.replace(e, rate=_less(Fraction(e.rate))), n)
        if isinstance(e, PoissonSampled)
        else (e, n)
        for e, n in parts
    )


def _only_added(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(findings, "_DIRECTIONS", ("add",))


def _largest_of_fewer(patch: pytest.MonkeyPatch) -> None:
    right = parallel._LargestSum.__init__
    patch.setattr(parallel._LargestSum, "__init__", lambda self, count: right(self, count - 1))


def _spent_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(filters.Filter, "spend", lambda self, cost: self)


def _coins_lose_less(patch: pytest.MonkeyPatch) -> None:
    right = bounded_ranges._Recursion._next
    patch.setattr(
        bounded_ranges._Recursion, "_next", lambda self, values: 0.95 * right(self, values)
    )


FAULTS: dict[str, tuple[str, Fault]] = {
    "floats above are floats below": (
        "pure_sums",
        _put(rounding.float_above, rounding.float_below),
    ),
    "certified sums are rounded down": (
        "moments_of_a_response",
        _put(balls.float_up, balls.float_down),
    ),
    "closed forms look at one direction": ("one_sampled_gaussian", _only_added),
    "contours look at one direction": (
        "two_sampled_gaussians",
        _put(contour._directions, lambda *_: ("add",)),
    ),
    "a rate is off, in contours": (
        "two_sampled_gaussians",
        _in(sampled_gaussian.sampled_gaussian, "rate", _less),
    ),
    "a rate is off, in one step": (
        "one_sampled_gaussian",
        _in(amplified.poisson_sampled_remove, 1, _less),
    ),
    "a rate is off, in compositions": (
        "two_sampled_gaussians",
        _out(contour_parts.flatten, _rates_less),
    ),
    "losses on grids count as if they had not been moved": (
        "a_coarse_grid",
        _put(stages._spread, lambda *_: 0.0),
    ),
    "losses on grids are moved by less": (
        "a_coarse_grid",
        _out(stages._spread, lambda spread: spread / 10),
    ),
    "normal noise is larger": ("one_gaussian", _in(curves.gaussian, 0, _less)),
    "a step is not counted": (
        "seven_responses",
        _out(contour_parts.flatten, lambda parts: tuple((e, max(n - 1, 1)) for e, n in parts)),
    ),
    "an infinite loss is lost, in contours": (
        "approximate_promises",
        _put(quadrature.with_infinite, lambda _, found: found),
    ),
    "an infinite loss is lost, in atoms": (
        "approximate_promises",
        _in(
            stages.three_points, 0, lambda law: dataclasses.replace(law, infinite=law.infinite * 0)
        ),
    ),
    "whole noise is larger": (
        "discrete_gaussians",
        _in(curves.discrete_gaussian, 0, lambda sigma: sigma / LESS),
    ),
    "a shift of whole noise is lost": (
        "discrete_gaussians",
        _in(curves.discrete_gaussian, 1, lambda shift: shift - 1),
    ),
    "Laplace noise is larger": ("one_sampled_laplace", _in(laws.of_laplace, 0, _less)),
    "the end of noise is not seen": (
        "truncated_noise",
        _out(
            laws.of_truncated_laplace,
            lambda law: dataclasses.replace(law, infinite=law.infinite * 0),
        ),
    ),
    "a promise is left out of a sum": (
        "pure_sums",
        _in(laws.composed_loss, 0, lambda parts: parts[:-1] or parts),
    ),
    "a moment of another order": (
        "moments_of_a_sampled_gaussian",
        _in(
            divergences.renyi_of_sampled_gaussian, "alpha", lambda alpha: alpha - Fraction(1, 10**6)
        ),
    ),
    "a moment of a response of another order": (
        "moments_of_a_response",
        _in(divergences.renyi_of_law, "alpha", lambda alpha: alpha - Fraction(1, 10**6)),
    ),
    "concentration is rounded down": ("concentration_of_gaussians", _out(composition._sum, _less)),
    "a promise buys too much concentration": (
        "promises_of_other_kinds",
        _out(conversions.zcdp_from_approx_dp, lambda rho: rho * 1.5),
    ),
    "a promise buys too much normal noise": (
        "promises_of_other_kinds",
        _out(conversions.gdp_from_approx_dp, lambda mu: mu * (1 + 1e-9)),
    ),
    "a draw is forgotten": (
        "draws_with_replacement",
        _in(sampling.draws, 0, lambda size: size - 1),
    ),
    "hits share twice what the others leave": (
        "draws_with_replacement",
        _in(draws._ratios, 3, lambda missed: missed * 2.0),
    ),
    "a pair of draws is farther apart": (
        "draws_with_replacement",
        _in(draws.shifted_mixture, 1, lambda shift: shift * Fraction(101, 100)),
    ),
    "half of a fixed size": (
        "a_fixed_size",
        _in(amplified.fixed_size_sampled, 2, lambda rate: rate / 2),
    ),
    "an allocation over more steps": (
        "an_allocation",
        _in(
            allocated.allocated, 0, lambda tails: dataclasses.replace(tails, steps=tails.steps * 2)
        ),
    ),
    "allocated noise is moved farther": (
        "an_allocation",
        _out(draws.on_grain, lambda shift: shift * 1.01),
    ),
    "a step of an allocation is forgotten": (
        "an_allocation",
        _in(allocated.AllocationPair, "steps", lambda steps: steps - 1),
    ),
    "more people are shuffled": (
        "shuffled_answers",
        _in(shuffling.delta_of_shuffled_response, "count", lambda count: count * 2),
    ),
    "many tries cost little": (
        "the_best_of_many",
        _out(selection._log_ratio, lambda gain: gain / 4),
    ),
    "the best of many is rarely a given run": (
        "the_best_of_many",
        _out(selection._derivative, lambda size: size / 8),
    ),
    "a pure price of tries is too small": (
        "the_best_of_many",
        _out(prices_of_tries.pure_of_tries, lambda price: price / 2),
    ),
    "an exponential mechanism is forgotten": (
        "exponential_mechanisms",
        _in(bounded_ranges.bounded_ranges, 1, lambda count: count - 1),
    ),
    "coins are less likely to lose much": (
        "exponential_mechanisms",
        _coins_lose_less,
    ),
    "one participation is forgotten": (
        "a_matrix",
        _in(matrices.squared_toeplitz_sensitivity, "participations", lambda times: times - 1),
    ),
    "a column of a group is forgotten": (
        "a_banded_matrix_on_cyclic_samples",
        _out(matrices.group_columns, lambda both: (both[0][1:], both[1])),
    ),
    "columns are taken to be as long as the largest": (
        "a_banded_matrix_on_cyclic_samples",
        _in(matrices._runs, 1, lambda end: lambda squares: max(25, end(squares))),
    ),
    "a level of a tree is forgotten": (
        "a_tree",
        _in(matrices.squared_tree_sensitivity, "participations", lambda times: times - 1),
    ),
    "what was spent is forgotten": ("a_filter", _spent_is_forgotten),
    "the largest parts are fewer": ("parts_of_people", _largest_of_fewer),
    "a pair costs what one does": ("parts_of_people", _put(parallel.pair_price, lambda cost: cost)),
    "who comes is not counted": (
        "groups_of_people",
        _put(base.under_replacement, lambda event, **_: event),
    ),
    "contours are too sure": (
        "two_sampled_gaussians",
        _out(contour._delta, lambda found: Interval(found.lower * 0.999, found.upper * 0.999)),
    ),
}
"""By what is wrong: the truth that finds it, and the fault."""


def _forget() -> None:
    """Empty all caches of the package: what is right must not answer for what is wrong."""
    for name, module in list(sys.modules.items()):
        if name.startswith("unacorda."):
            for value in list(vars(module).values()):
                held = getattr(value, "__closure__", None) or ()  # of a function that checks first
                for one in (value, *(cell.cell_contents for cell in held)):
                    if callable(one) and hasattr(one, "cache_clear"):
                        one.cache_clear()


@pytest.fixture(autouse=True)
def _fresh() -> Any:
    _forget()
    yield
    _forget()


@in_subtests("name", sorted(TRUTHS))
def test_the_truth(name: str) -> None:
    TRUTHS[name]()


@in_subtests("name", sorted(FAULTS))
def test_the_fault_is_found(name: str) -> None:
    truth, fault = FAULTS[name]
    _forget()
    with pytest.MonkeyPatch.context() as patch:
        fault(patch)
        with pytest.raises(Exception):  # noqa: B017  # whatever is raised, it is noticed
            TRUTHS[truth]()
