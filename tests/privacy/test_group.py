"""Group privacy, neighboring relations and the named composition theorems."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import inspect
import math
from fractions import Fraction
from types import ModuleType
from typing import Any

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cases import in_subtests

from unacorda.errors import InvalidParameter
from unacorda.privacy.conversions import approximate, composition, concentrated, group

HALF = Fraction(1, 2)


@pytest.mark.parametrize("module", [group, composition])
def test_every_function_says_statement_bound_edges_and_source(module: ModuleType) -> None:
    public = {
        name: function
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    }
    assert public
    for name, function in public.items():
        document = inspect.getdoc(function) or ""
        for line in ("Statement", "Bound", "Edges", "Source"):
            assert line in document, (name, line)


@in_subtests(
    ("function", "good"),
    [
        (group.pure_of_group, {"epsilon": 1.0, "size": 2}),
        (group.approx_dp_of_group, {"epsilon": 1.0, "delta": 0.1, "size": 2}),
        (group.zcdp_of_group, {"rho": 1.0, "size": 2}),
        (group.zcdp_of_two_steps, {"first": 1.0, "second": 1.0}),
        (group.gdp_of_group, {"mu": 1.0, "size": 2}),
        (group.renyi_orders_of_two_steps, {"alpha": 2.0, "stretch": 2.0}),
        (
            group.renyi_of_two_steps,
            {"first": 1.0, "second": 1.0, "alpha": 2.0, "stretch": 2.0},
        ),
        (group.replace_one_from_add_remove, {"epsilon": 1.0, "delta": 0.1}),
        (group.add_remove_from_replace_one, {"epsilon": 1.0, "delta": 0.1}),
        (group.zero_out_from_replace_one, {"epsilon": 1.0, "delta": 0.1}),
    ],
)
def test_refuses_wrong_numbers(function: Any, good: dict[str, Any]) -> None:
    first, *_ = good
    for wrong in (-1.0, math.nan, math.inf):
        for chosen in good:
            arguments = {**good, chosen: wrong}
            with pytest.raises(InvalidParameter) as caught:
                function(arguments.pop(first), **arguments)
            assert caught.value.argument == chosen


@pytest.mark.parametrize("size", [0, 1.5, True, -2])
def test_a_group_has_a_whole_number_of_members(size: Any) -> None:
    with pytest.raises(InvalidParameter, match="size"):
        group.pure_of_group(1.0, size=size)


@settings(max_examples=50, deadline=None)
@given(st.floats(0, 5), st.floats(1e-300, 1e-3), st.integers(1, 12))
def test_group_delta_is_the_geometric_sum(epsilon: float, delta: float, size: int) -> None:
    together, mass = group.approx_dp_of_group(epsilon, delta=delta, size=size)
    assert together == Fraction(epsilon) * size
    with mpmath.workdps(60):
        truth = mpmath.fsum(mpmath.exp(mpmath.mpf(epsilon) * k) for k in range(size)) * delta
        assert min(mpmath.mpf(1), truth) <= mpmath.mpf(mass)
        assert mpmath.mpf(mass) <= truth * (1 + mpmath.mpf(10) ** -13)


def test_two_randomised_responses_in_a_row_need_the_group_bound() -> None:
    """The bound is met by a chain whose deltas nest: it can not be made smaller."""
    # P0, P1, P2 on {0, 1}: P1(0) = e^eps P2(0) + delta, P0(0) = e^eps P1(0) + delta.
    epsilon, delta = 0.3, 0.01
    last = 0.02
    middle = math.exp(epsilon) * last + delta
    first = math.exp(epsilon) * middle + delta
    together, mass = group.approx_dp_of_group(epsilon, delta=delta, size=2)
    assert first - math.exp(float(together)) * last == pytest.approx(mass, rel=1e-12)


def renyi_of_coins(p: Any, q: Any, alpha: Any) -> Any:
    total = p**alpha * q ** (1 - alpha) + (1 - p) ** alpha * (1 - q) ** (1 - alpha)
    return mpmath.log(total) / (alpha - 1)


@settings(max_examples=60, deadline=None)
@given(
    st.tuples(*[st.floats(0.01, 0.99)] * 3),
    st.floats(1.01, 20),
    st.floats(1.01, 10),
)
def test_renyi_triangle_holds_on_coins(
    heads: tuple[float, ...], alpha: float, stretch: float
) -> None:
    p, q, r = (mpmath.mpf(h) for h in heads)
    first_order, second_order = group.renyi_orders_of_two_steps(alpha, stretch=stretch)
    orders = [mpmath.mpf(o.numerator) / o.denominator for o in (first_order, second_order)]
    with mpmath.workdps(40):
        steps = [
            max(0.0, float(d)) * (1 + 1e-14) + 1e-30
            for d in (renyi_of_coins(p, q, orders[0]), renyi_of_coins(q, r, orders[1]))
        ]
        bound = group.renyi_of_two_steps(steps[0], second=steps[1], alpha=alpha, stretch=stretch)
        assert renyi_of_coins(p, r, mpmath.mpf(alpha)) <= float(bound) * (1 + 1e-12) + 1e-25


@pytest.mark.long
@settings(max_examples=50, deadline=None)
@given(st.floats(1e-6, 10), st.floats(1e-6, 10), st.floats(1.1, 50))
def test_two_steps_of_zcdp_are_the_best_stretch_of_renyi(
    first: float, second: float, alpha: float
) -> None:
    bound = group.zcdp_of_two_steps(first, second=second)
    found = math.inf
    for exponent in range(-60, 61):
        stretch = 1 + 2.0 ** (exponent / 6)
        one, two = group.renyi_orders_of_two_steps(alpha, stretch=stretch)
        total = group.renyi_of_two_steps(
            Fraction(first) * one, second=Fraction(second) * two, alpha=alpha, stretch=stretch
        )
        found = min(found, float(total) / alpha)
    assert bound <= found * (1 + 1e-12)
    assert found <= bound * 1.02


def test_groups_of_the_other_kinds() -> None:
    assert group.zcdp_of_group(0.5, size=3) == Fraction(9, 2)
    assert group.gdp_of_group(0.5, size=3) == Fraction(3, 2)
    assert group.zcdp_of_two_steps(0.25, second=0.25) == pytest.approx(1.0, rel=1e-15)
    assert group.zcdp_of_two_steps(2.0, second=0) >= 2.0
    # a group of a Gaussian mechanism is one with a larger shift
    mu = group.gdp_of_group(0.25, size=4)
    assert concentrated.zcdp_from_gdp(mu) == group.zcdp_of_group(
        concentrated.zcdp_from_gdp(0.25), size=4
    )


@settings(max_examples=50, deadline=None)
@given(st.floats(0, 20), st.floats(0, 1))
def test_there_and_back_between_relations_never_gains(epsilon: float, delta: float) -> None:
    half, mass = group.add_remove_from_replace_one(epsilon, delta=delta)
    together, back = group.replace_one_from_add_remove(half, delta=mass)
    assert together == Fraction(epsilon)
    assert back <= delta * (1 + 1e-15)
    assert group.zero_out_from_replace_one(epsilon, delta=delta) == (
        Fraction(epsilon),
        Fraction(delta),
    )


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0, 2), min_size=1, max_size=30), st.floats(1e-12, 0.5))
def test_advanced_composition_lies_above_the_zcdp_route(
    epsilons: list[float], delta: float
) -> None:
    value = composition.advanced_composition(epsilons, delta=delta)
    rho = sum((Fraction(concentrated.zcdp_from_pure(e)) for e in epsilons), start=Fraction(0))
    by_zcdp = approximate.approx_dp_from_zcdp(rho, delta=delta)
    plain = float(sum(map(Fraction, epsilons), start=Fraction(0)))
    assert value >= min(by_zcdp, plain) * (1 - 1e-12)
    assert value <= plain * (1 + 1e-12) + 1e-320
    pair = composition.advanced_composition_of_approximate(
        epsilons, deltas=[0.0] * len(epsilons), delta=delta
    )
    assert pair[0] == value
    assert pair[1] == pytest.approx(delta, rel=1e-14)
    assert pair[1] >= delta


def test_composition_edges() -> None:
    assert composition.basic_composition([], deltas=[]) == (Fraction(0), Fraction(0))
    assert composition.basic_composition([1, 1], deltas=[0.75, 0.75]) == (Fraction(2), Fraction(1))
    assert composition.advanced_composition([], delta=1e-6) == 0.0
    assert composition.advanced_composition([HALF, HALF], delta=0) == 1.0
    assert composition.advanced_composition([HALF, HALF], delta=1) == 0.0
    assert composition.delta_of_independent_failures([]) == 0.0
    assert composition.delta_of_independent_failures([0.1, 1]) == 1.0
    tiny = composition.delta_of_independent_failures([1e-300] * 10)
    assert 1e-299 <= tiny <= 1e-299 * (1 + 1e-14)
    for wrong in ([-1.0], [math.nan], [math.inf]):
        with pytest.raises(InvalidParameter, match="epsilons"):
            composition.advanced_composition(wrong, delta=0.1)
    with pytest.raises(InvalidParameter, match="deltas"):
        composition.basic_composition([1.0], deltas=[])
    with pytest.raises(InvalidParameter, match="deltas"):
        composition.basic_composition([1.0], deltas=[2.0])
    with pytest.raises(InvalidParameter, match="delta"):
        composition.advanced_composition([1.0], delta=-0.1)


def test_homogeneous_optimum_lies_below_the_theorems() -> None:
    """Kairouz, Oh, Viswanath 2015, Thm. 3.3, summed here term by term."""
    epsilon, count, at = 0.1, 100, 3.0
    with mpmath.workdps(40):
        e = mpmath.exp(mpmath.mpf(epsilon))
        delta = (
            mpmath.fsum(
                mpmath.binomial(count, heads)
                * max(0, e**heads - mpmath.exp(at) * e ** (count - heads))
                for heads in range(count + 1)
            )
            / (1 + e) ** count
        )
    assert composition.advanced_composition([epsilon] * count, delta=float(delta)) > at
