"""The budget of a synthesis: all of it is spent, never more, and counts are read after paying."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from unacorda.accounting.charges import charge
from unacorda.accounting.prices import price
from unacorda.bits import SeededBits
from unacorda.errors import InternalError, InvalidParameter
from unacorda.privacy.events import Composed
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP, RenyiDP
from unacorda.privacy.neighbors import AddRemove, ReplaceOne
from unacorda.synthesis.charges import (
    ConcentratedShares,
    GaussianShares,
    PureShares,
    Shares,
    shares_within,
)
from unacorda.synthesis.domain import CategoryColumn, Domain
from unacorda.synthesis.plan import SynthesisPlan
from unacorda.synthesis.release import SyntheticTable, synthesize
from unacorda.synthesis.sensitivity import CountSensitivity
from unacorda.synthesis.tables import Candidate, CodedRows, PrivateTables

BUDGETS: list[Guarantee] = [
    ZCDP("0.3"),
    ZCDP("0.3", delta="1e-9"),
    PureDP(2),
    ApproxDP(1, "1e-6"),
    ApproxDP(1, 0),
    RenyiDP(4, 1),
    GDP("0.8"),
    GDP("0.7", delta="1e-9"),
]
KINDS: dict[type[Shares], Any] = {ConcentratedShares: ZCDP, GaussianShares: GDP, PureShares: PureDP}


def domain_of(sizes: tuple[int, ...]) -> Domain:
    return Domain(
        columns=tuple(
            CategoryColumn(name=f"c{place}", values=tuple(range(size)), other=None)
            for place, size in enumerate(sizes)
        )
    )


def released(
    budget: Guarantee,
    *,
    sizes: tuple[int, ...] = (2, 3, 4, 2),
    rows: int = 500,
    seed: int = 1,
    unit: int = 1,
    **choices: Any,
) -> SyntheticTable:
    generator = np.random.default_rng(seed)
    first = generator.integers(0, 1 << 20, size=rows)
    codes = np.stack([(first >> a) % size for a, size in enumerate(sizes)], axis=1)
    return synthesize(
        CodedRows(codes, sizes=sizes),
        SynthesisPlan(domain=domain_of(sizes), **choices),
        budget=budget,
        rows_per_unit=unit,
        neighbors=ReplaceOne if seed % 2 else AddRemove,
        bits=SeededBits(seed),
    )


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("report", [0, Fraction(1, 10)])
def test_all_of_every_budget_is_spent_and_no_more(budget: Guarantee, report: Fraction) -> None:
    found = released(budget, report=report)
    shares = shares_within(budget)
    kind = KINDS[type(shares)]
    spent, promised = (price(one, kind).additive[0] for one in (found.steps, found.event))
    assert spent <= shares.total == promised
    assert spent > Fraction(999, 1000) * shares.total
    assert isinstance(found.steps, Composed)
    assert (found.errors is None) == (not report)


@pytest.mark.parametrize("budget", BUDGETS)
def test_the_event_keeps_the_request(budget: Guarantee) -> None:
    event = shares_within(budget).event
    cost = charge(event, budget, budget)
    assert cost <= budget
    assert cost.additive[0] > 0


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple),
    amount=st.fractions(min_value="1/1000", max_value=100, max_denominator=1000),
    kind=st.sampled_from([ZCDP, PureDP, GDP]),
    report=st.fractions(min_value=0, max_value="9/10", max_denominator=10),
    workload=st.integers(1, 3),
    unit=st.integers(1, 5),
    weight=st.fractions(min_value="1/9", max_value=100, max_denominator=9),
    seed=st.integers(0, 5),
)
def test_plans_of_every_kind_spend_the_budget(
    *,
    sizes: tuple[int, ...],
    amount: Fraction,
    kind: Any,
    report: Fraction,
    workload: int,
    unit: int,
    weight: Fraction,
    seed: int,
) -> None:
    budget = kind(amount)
    first = tuple(f"c{place}" for place in range(min(workload, len(sizes))))
    found = released(
        budget,
        sizes=sizes,
        rows=40,
        seed=seed,
        unit=unit,
        report=report,
        workload=workload,
        weights={first: weight},
    )
    spent, whole = price(found.steps, kind).additive[0], budget.additive[0]
    assert Fraction(999, 1000) * whole < spent <= whole


class Forbidden:
    """Counts that must not be read."""

    sizes = (2, 2)

    def counts(self, columns: tuple[int, ...]) -> NDArray[np.int64]:
        raise AssertionError("counts were read without paying")


def private(source: Any = None, total: Fraction = Fraction(1)) -> PrivateTables:
    return PrivateTables(
        source or Forbidden(),
        sensitivity=CountSensitivity(rows=1, neighbors=AddRemove),
        shares=ConcentratedShares(total=total),
        bits=SeededBits(1),
    )


def test_what_is_not_paid_for_is_not_read() -> None:
    one = Candidate(columns=(0,), weight=1, expected=np.zeros(2))
    over = Fraction(3, 2)
    with pytest.raises(InternalError):
        private().measure((0,), amount=over)
    with pytest.raises(InternalError):
        private().choose([one], count=1, amount=over, apart=lambda _, __: True)
    with pytest.raises(InternalError):
        private().distances([((0,), np.zeros(2, np.int64))], amount=over)


def test_a_step_that_dies_is_paid_for() -> None:
    tables = private()
    with pytest.raises(AssertionError):
        tables.measure((0,), amount=Fraction(3, 4))
    assert tables.left == Fraction(1, 4)
    with pytest.raises(InternalError):
        tables.measure((0,), amount=Fraction(1, 2))


def test_each_choice_of_a_batch_is_paid_for() -> None:
    tables = private(CodedRows([[0, 0], [1, 1], [1, 1]], sizes=(2, 2)))
    found = [Candidate(columns=c, weight=1, expected=np.zeros(2)) for c in [(0,), (1,)]]
    chosen = tables.choose(found, count=5, amount=Fraction(1, 8), apart=lambda _, __: True)
    assert len(chosen) == 2
    assert tables.left == Fraction(6, 8)


@pytest.mark.parametrize(
    "budget",
    [ZCDP(0), PureDP(0), ApproxDP(0, "1e-6"), GDP(0), RenyiDP(2, 0), ApproxDP(1, 1), "much"],
)
def test_other_budgets_are_refused(budget: Any) -> None:
    with pytest.raises(InvalidParameter, match="budget"):
        shares_within(budget)


def test_a_run_that_is_stopped_in_a_round_gives_back_nothing() -> None:
    seen = []

    def stop(summary: Any) -> None:
        seen.append(summary)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        synthesize(
            CodedRows([[0, 0]] * 50 + [[1, 1]] * 50, sizes=(2, 2)),
            SynthesisPlan(domain=domain_of((2, 2)), workload=2),
            budget=ZCDP(1),
            rows_per_unit=1,
            neighbors=AddRemove,
            bits=SeededBits(1),
            watch=stop,
        )
    assert len(seen) == 1
    assert 0 < seen[0].left < 1


@pytest.mark.parametrize("kind", KINDS)
def test_choices_are_made_for_the_largest_weight(kind: Any) -> None:
    asked: list[int] = []

    class Watched:
        """Shares that note the weights they are asked for."""

        shares = kind(total=Fraction(1))

        def __getattr__(self, name: str) -> Any:
            return getattr(self.shares, name)

        def choice(self, amount: Fraction, sensitivity: CountSensitivity, *, weight: int) -> Any:
            asked.append(weight)
            return self.shares.choice(amount, sensitivity, weight=weight)

    watched: Any = Watched()
    tables = PrivateTables(
        CodedRows([[0, 0], [1, 1]], sizes=(2, 2)),
        sensitivity=CountSensitivity(rows=1, neighbors=AddRemove),
        shares=watched,
        bits=SeededBits(1),
    )
    found = [
        Candidate(columns=c, weight=weight, expected=np.zeros(2))
        for c, weight in [((0,), 3), ((1,), 7)]
    ]
    tables.choose(found, count=2, amount=Fraction(1, 8), apart=lambda _, __: True)
    assert set(asked) == {7}
