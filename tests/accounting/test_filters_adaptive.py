"""Filters against adversaries who choose each question, and its cost, after all answers."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.accounting.filter_games import (
    STRATEGIES,
    Path,
    binary,
    cells,
    delta_at,
    leaky,
    play,
    renyi_at,
)
from tests.tiers import mostly_slow

from unacorda.accounting.filters import ApproximateFilter, Filter, RenyiFilter
from unacorda.errors import InvalidParameter, UnsupportedEvent, WrongUnit
from unacorda.privacy import conversions
from unacorda.privacy.events import Gaussian
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP, RenyiDP
from unacorda.privacy.tradeoff import TradeoffCurve

ROUND = 1e-12
EPSILONS = (0.0, 0.1, 0.3, 0.6, 1.0, 1.5, 2.0)

strategies = pytest.mark.parametrize("strategy", STRATEGIES)


def whole(paths: list[Path]) -> list[Path]:
    assert math.isclose(math.fsum(path.p for path in paths), 1, abs_tol=1e-9)
    assert math.isclose(math.fsum(path.q for path in paths), 1, abs_tol=1e-9)
    return paths


@strategies
def test_pure_losses_never_pass_the_limit(strategy: str) -> None:
    game = play(Filter(PureDP(1)), lambda x: binary(0.6 * x, PureDP), STRATEGIES[strategy], depth=9)
    paths = whole(list(game))
    largest = max(abs(math.log(path.p / path.q)) for path in paths)
    assert 0.5 < largest <= 1 + ROUND


@strategies
def test_zcdp_sums_bound_every_order(strategy: str) -> None:
    account = Filter(ZCDP(0.3))
    for ask in (lambda x: binary(x, ZCDP), lambda x: cells(0.8 * x, ZCDP)):
        paths = whole(list(play(account, ask, STRATEGIES[strategy], depth=6)))
        for alpha in (1.01, 1.5, 2.0, 4.0, 9.0, 40.0):
            assert renyi_at(paths, alpha) <= 0.3 * alpha + ROUND
        assert renyi_at(paths, 1.5) > 0.1  # the game came near the limit


@strategies
def test_gdp_sums_bound_the_whole_tradeoff_curve(strategy: str) -> None:
    account = Filter(GDP(0.9))
    for ask in (lambda x: binary(x, GDP), lambda x: cells(x, GDP, shift=0.4 - x)):
        paths = whole(list(play(account, ask, STRATEGIES[strategy], depth=6)))
        for epsilon in EPSILONS:
            allowed = conversions.approx_dp_delta_from_gdp(0.9, epsilon=epsilon)
            assert delta_at(paths, epsilon) <= allowed + ROUND
        assert delta_at(paths, 0.0) > 0.15  # the game came near the limit, 0.347


@strategies
@pytest.mark.parametrize("kind", mostly_slow([ZCDP, GDP, ApproxDP]))
def test_own_deltas_add_beside_the_rest(strategy: str, kind: type[Guarantee]) -> None:
    """Theorem 1 of docs/proofs/filters.md: the clean part is bounded as if alone."""
    limits: dict[type[Guarantee], Guarantee] = {
        ZCDP: ZCDP(0.2, 0.05),
        GDP: GDP(0.7, 0.05),
        ApproxDP: ApproxDP(1, 0.05),
    }
    game = play(
        Filter(limits[kind]), lambda x: leaky(x, 0.03 * x, kind), STRATEGIES[strategy], depth=5
    )
    paths = whole(list(game))
    assert max(path.p for path in paths if path.q == 0) > 0  # something did leak
    for epsilon in (*EPSILONS[:4], 1.0):
        if kind is ZCDP:
            rest = conversions.approx_dp_delta_from_zcdp(0.2, epsilon=epsilon)
        elif kind is GDP:
            rest = conversions.approx_dp_delta_from_gdp(0.7, epsilon=epsilon)
        else:
            rest = conversions.approx_dp_delta_from_pure(1.0, epsilon=epsilon)
        allowed = float(conversions.delta_of_mixture(rest, part=0.05))
        assert delta_at(paths, epsilon) <= allowed + ROUND


@pytest.mark.long
@strategies
def test_the_approximate_filter_keeps_its_guarantee(strategy: str) -> None:
    for limit, slack in ((ApproxDP(1, 0.1), None), (ApproxDP(0.4, 0.2), 0.15)):
        account = ApproximateFilter(limit, slack)
        for ask in (
            lambda x: binary(1.2 * x, PureDP),
            lambda x: leaky(x, 0.05 * x, ApproxDP),
            lambda x: cells(x, GDP),
        ):
            paths = whole(list(play(account, ask, STRATEGIES[strategy], depth=5)))
            assert delta_at(paths, float(limit.epsilon)) <= float(limit.delta) + ROUND


@strategies
def test_the_grid_of_orders_keeps_its_guarantee(strategy: str) -> None:
    limit = ApproxDP(1, 0.1)
    account = RenyiFilter(limit, orders=(1.5, 2, 3, 5, 9))
    for ask in (lambda x: binary(x, PureDP), lambda x: cells(x, ZCDP)):
        paths = whole(list(play(account, ask, STRATEGIES[strategy], depth=6)))
        assert 0.002 < delta_at(paths, 1.0) <= 0.1 + ROUND


def test_convolving_as_one_goes_is_unsound_and_refused() -> None:
    """The counterexample of docs/proofs/filters.md, section 8, with exact numbers.

    Both continuations meet (2, 0.01) if fixed beforehand; chosen by the first answer they do not.
    """
    epsilon, delta, first = 2.0, 0.01, 1.0
    high = 1 / (1 + math.exp(-first))
    # Randomised response whose delta at epsilon - first is delta / high.
    share = delta / high
    second = math.log((math.exp(epsilon - first) + share) / (1 - share))
    start = binary(first, PureDP)
    after = {"response": binary(second, PureDP), "leak": leaky(0.0, delta, ApproxDP)}

    def delta_of(choice: tuple[str, str]) -> float:
        paths = []
        for outcome, name in enumerate(choice):
            question = after[name]
            p, q = start.under_p[outcome], start.under_q[outcome]
            for place, (here, there) in enumerate(
                zip(question.under_p, question.under_q, strict=True)
            ):
                paths.append(Path((outcome, place), p * here, q * there, None))
        return math.fsum(max(path.p - math.exp(epsilon) * path.q, 0.0) for path in paths)

    assert delta_of(("response", "response")) <= delta + ROUND
    assert delta_of(("leak", "leak")) <= delta + ROUND
    assert delta_of(("response", "leak")) > 1.26 * delta
    for account in (
        Filter(ApproxDP(epsilon, delta)),
        ApproximateFilter(ApproxDP(epsilon, delta)),
        RenyiFilter(ApproxDP(epsilon, delta)),
    ):
        for cost in (Gaussian(noise_multiplier=1.0), TradeoffCurve.of_guarantee(GDP(1))):
            with pytest.raises(UnsupportedEvent, match=r"does not convolve .* unsound"):
                account.admits(cost)  # type: ignore[arg-type]
            with pytest.raises(UnsupportedEvent, match="chosen after seeing"):
                account.spend(cost)  # type: ignore[arg-type]
    for maker in (Filter, ApproximateFilter, RenyiFilter):
        with pytest.raises(UnsupportedEvent, match="convolve"):
            maker(Gaussian(noise_multiplier=1.0))  # type: ignore[arg-type]


# ------------------------------------------------------------------------- the approximate filter


@pytest.mark.long
@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.floats(0.001, 0.6), min_size=1, max_size=30),
    st.sampled_from([(1.0, 1e-6), (0.3, 1e-3), (3.0, 1e-12)]),
)
def test_whatever_the_classic_test_admits_is_admitted(
    epsilons: list[float], limit: tuple[float, float]
) -> None:
    """sqrt(2 log(1/slack) S) + S/2 <= epsilon, the test of Whitehouse et al. 2023."""
    account = ApproximateFilter(ApproxDP(*limit))
    squares = 0.0
    for epsilon in epsilons:
        squares += epsilon**2
        classic = math.sqrt(2 * math.log(2 / limit[1]) * squares) + squares / 2
        if classic <= limit[0] * (1 - 1e-12):
            assert account.admits(PureDP(epsilon))
        account = account.spend(PureDP(epsilon))


def test_own_deltas_and_the_slack_share_the_limit() -> None:
    account = ApproximateFilter(ApproxDP(1, 1e-6), slack=4e-7)
    assert account.admits(ApproxDP(0.01, 6e-7))
    assert not account.admits(ApproxDP(0.01, "6.0000001e-7"))
    full = account.spend(ApproxDP(0.01, 6e-7))
    assert full.admits(PureDP(0.01))
    assert not full.admits(ApproxDP(0.01, 1e-30))
    assert full.remaining.delta == 0
    assert account.spent == ZCDP(0)


def test_the_plain_sum_counts_only_while_all_costs_have_one() -> None:
    account = ApproximateFilter(ApproxDP(1, 1e-6))
    assert account.spend(PureDP(0.5)).admits(PureDP(0.5))
    assert not account.spend(PureDP(0.5)).admits(PureDP("0.5000001"))
    mixed = account.spend(ZCDP("1e-9"))
    assert not mixed.admits(PureDP(0.9))
    assert mixed.admits(PureDP(0.1))


def test_the_order_of_costs_does_not_matter() -> None:
    costs: list[Guarantee] = [PureDP(0.1), ZCDP(0.001), GDP(0.05), ApproxDP(0.1, 1e-8)]
    there = back = ApproximateFilter(ApproxDP(1, 1e-6))
    for cost in costs:
        there = there.spend(cost)
    for cost in reversed(costs):
        back = back.spend(cost)
    assert there == back


@pytest.mark.parametrize("limit", [ApproxDP(1, 0), ApproxDP(1, 1), PureDP(1), ZCDP(1, 0.1)])
def test_limits_without_a_delta_to_divide_are_refused(limit: Guarantee) -> None:
    for maker in (ApproximateFilter, RenyiFilter):
        with pytest.raises(InvalidParameter):
            maker(limit)  # type: ignore[arg-type]


def test_bad_slack_and_foreign_costs_are_refused() -> None:
    for slack in (0, -1, 2e-6, "nan"):
        with pytest.raises(InvalidParameter):
            ApproximateFilter(ApproxDP(1, 1e-6), slack)
    with pytest.raises(WrongUnit):
        ApproximateFilter(ApproxDP(1, 1e-6)).admits(RenyiDP(2, 0.1))


# ------------------------------------------------------------------------------ the grid of orders


def test_budgets_convert_to_their_share_of_delta_and_not_to_less() -> None:
    limit = ApproxDP(1, 1e-6)
    account = RenyiFilter(limit)
    assert Fraction(2) not in account.orders  # no budget at all at so small a delta
    share = limit.delta / len(account.orders)
    for budget in account.budgets:
        reached = conversions.approx_dp_delta_from_renyi(
            budget.epsilon, alpha=budget.alpha, epsilon=1.0
        )
        assert share * Fraction(999_999_999, 10**9) <= reached <= share * (1 + Fraction(1, 2**50))


def test_the_grid_admits_what_its_best_order_admits() -> None:
    orders = (4, 16, 64)
    account = RenyiFilter(ApproxDP(2, 1e-5), orders=orders)
    steps = 0
    while account.admits(ZCDP(0.001)):
        account, steps = account.spend(ZCDP(0.001)), steps + 1
    best = max(
        int(budget.epsilon / (budget.alpha * Fraction("0.001"))) for budget in account.budgets
    )
    assert steps == best
    assert account.remaining[-1].epsilon == 0 or account.spent[-1] <= account.budgets[-1]


def test_divergences_may_be_given_order_by_order() -> None:
    account = RenyiFilter(ApproxDP(2, 1e-5), orders=(16, 32))
    curve = [RenyiDP(16, 0.16), RenyiDP(32, 0.32)]
    assert account.spend(curve) == account.spend(ZCDP(0.01))
    assert account.admits(curve)
    for wrong in (curve[:1], curve[::-1], [1, 2], [RenyiDP(16, 1), RenyiDP(31, 1)]):
        with pytest.raises(InvalidParameter):
            account.spend(wrong)  # type: ignore[arg-type]
    for cost in (ApproxDP(1, 1e-9), ZCDP(1, 1e-9), RenyiDP(16, 0.1)):
        with pytest.raises(WrongUnit):
            account.spend(cost)


def test_orders_without_any_budget_are_refused() -> None:
    with pytest.raises(InvalidParameter):
        RenyiFilter(ApproxDP(0.1, 1e-9), orders=(2, 3))
    with pytest.raises(InvalidParameter):
        RenyiFilter(ApproxDP(0.1, 1e-9), orders=(1, 3))
    with pytest.raises(InvalidParameter):
        RenyiFilter(ApproxDP(0.1, 1e-9), orders=())


def test_gaussian_quantiles_agree_with_the_games() -> None:
    """The games' own probabilities are right: three cells of N(0, 1), and they sum to one."""
    question = cells(0.0, GDP)
    normal = NormalDist()
    assert question.under_p == question.under_q
    assert math.isclose(question.under_p[0], normal.cdf(-0.6))
    assert math.isclose(math.fsum(question.under_p), 1)
