"""Accounts: threads never overspend, sub-accounts debit all above, parts owe the largest."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import copy
import os
import pickle
import random
import threading
from fractions import Fraction
from typing import Any

import pytest

from unacorda.accounting.filters import Account, ApproximateFilter, Filter, RenyiFilter
from unacorda.errors import BudgetExceeded, InvalidParameter, LedgerMismatch, WrongUnit
from unacorda.privacy.events import Gaussian
from unacorda.privacy.guarantees import ZCDP, ApproxDP, PureDP, RenyiDP
from unacorda.privacy.neighbors import ReplaceOne


def test_threads_together_spend_the_limit_and_no_more() -> None:
    account = Account(PureDP(1))
    children = [account.sub_account(f"analyst {index}", PureDP("1/2")) for index in range(8)]
    start = threading.Barrier(8)
    spent = [0] * 8

    def analyst(index: int) -> None:
        start.wait()
        for _ in range(60):
            try:
                children[index].spend(PureDP("1/200"))
            except BudgetExceeded:
                continue
            spent[index] += 1

    threads = [threading.Thread(target=analyst, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(spent) == 200
    assert account.spent == PureDP(1)
    for child, many in zip(children, spent, strict=True):
        assert child.spent == PureDP(1) / 200 * many


def test_a_refusal_above_leaves_everything_as_it_was() -> None:
    root = Account(PureDP(1), name="root")
    middle = root.sub_account("middle", PureDP(5))
    leaf = middle.sub_account("leaf", PureDP(9))
    leaf.spend(PureDP("0.75"))
    with pytest.raises(BudgetExceeded, match="'root'") as refusal:
        leaf.spend(PureDP(0.5))
    assert refusal.value.left == PureDP(0.25)
    assert (leaf.spent, middle.spent, root.spent) == (PureDP("0.75"),) * 3
    assert not leaf.admits(PureDP(0.5))
    assert leaf.admits(PureDP(0.25))
    with pytest.raises(BudgetExceeded, match="'root/middle/leaf'"):
        leaf.spend(PureDP(10))


def test_siblings_compete_for_what_is_above() -> None:
    root = Account(PureDP(1))
    one, other = root.sub_account("one", PureDP(1)), root.sub_account("other", PureDP(1))
    one.spend(PureDP(0.7))
    assert other.remaining == PureDP(1)
    assert not other.admits(PureDP(0.4))
    other.spend(PureDP(0.3))
    assert root.remaining == PureDP(0)


def test_children_of_other_kinds_spend_what_both_can_add() -> None:
    root = Account(ApproximateFilter(ApproxDP(1, 1e-6)))
    child = root.sub_account("zcdp", ZCDP(0.005))
    child.spend(ZCDP(0.003))
    assert isinstance(root.filter, ApproximateFilter)
    assert root.filter.spent == ZCDP(0.003)
    with pytest.raises(WrongUnit):
        child.spend(PureDP(0.1))
    assert root.filter.spent == child.spent == ZCDP(0.003)
    grid = Account(RenyiFilter(ApproxDP(1, 1e-6)))
    grid.sub_account("zcdp", ZCDP(1)).spend(ZCDP(0.003))
    assert grid.spent == RenyiFilter(ApproxDP(1, 1e-6)).spend(ZCDP(0.003)).spent


def test_only_budgets_and_filters_open_an_account() -> None:
    for budget in (Gaussian(noise_multiplier=1), 1.0):
        with pytest.raises(Exception, match="convolve"):
            Account(budget)  # type: ignore[arg-type]


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_copies_are_refused(duplicate: Any) -> None:
    with pytest.raises(TypeError, match="budget"):
        duplicate(Account(PureDP(1)))


def test_a_forked_child_may_not_spend(monkeypatch: pytest.MonkeyPatch) -> None:
    account = Account(PureDP(1))
    here = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: here + 1)
    with pytest.raises(LedgerMismatch, match="process"):
        account.spend(PureDP(0.1))
    with pytest.raises(LedgerMismatch):
        account.admits(PureDP(0.1))
    monkeypatch.undo()
    account.spend(PureDP(0.1))


# -------------------------------------------------------------------------------------------- parts


def test_parts_owe_the_largest_and_refuse_together() -> None:
    root = Account(ZCDP(1), name="root")
    parts = root.split(max_parts=1)
    parts.part("A").spend(ZCDP(0.6))
    parts.part("B").spend(ZCDP(0.5))
    assert root.spent == parts.owed == ZCDP(0.6)
    root.spend(ZCDP(0.3))
    with pytest.raises(BudgetExceeded, match="'root'"):
        parts.part("B").spend(ZCDP("0.2000001"))
    assert parts.part("B").spent == ZCDP(0.5)
    parts.part("B").spend(ZCDP(0.2))
    assert root.remaining == ZCDP(0)
    assert parts.part("B") is parts.part("B")


def test_parts_of_parts() -> None:
    root = Account(PureDP(10))
    outer = root.split(max_parts=2)
    inner = outer.part("A").split(max_parts=1)
    inner.part("x").spend(PureDP(1))
    inner.part("y").spend(PureDP(2))
    outer.part("A").spend(PureDP(1))
    outer.part("B").spend(PureDP(2))
    outer.part("C").spend(PureDP(2.5))
    assert outer.part("A").spent == PureDP(3)
    assert root.spent == PureDP(5.5)


def test_parts_have_their_own_budget_once() -> None:
    parts = Account(PureDP(1)).split()
    mine = parts.part("A", PureDP(0.1))
    assert not mine.admits(PureDP(0.2))
    with pytest.raises(InvalidParameter):
        parts.part("A", PureDP(0.2))
    with pytest.raises(WrongUnit):
        parts.part("B", ZCDP(0.2))


def test_replacement_costs_the_parent_a_pair() -> None:
    root = Account(ZCDP(1))
    parts = root.split(neighbors=ReplaceOne)
    parts.part("A").spend(ZCDP(0.1))
    parts.part("B").spend(ZCDP(0.2))
    assert root.spent == ZCDP(0.8)
    assert parts.part("B").spent == ZCDP(0.2)


def test_a_split_below_a_converting_filter_is_refused() -> None:
    """Spends 1 in A, then 3/2 in B: debits of 1 and 1/2 converted apart would be too cheap."""
    root = Account(ApproximateFilter(ApproxDP(5, 1e-6)))
    child = root.sub_account("pure", PureDP(9))
    for account in (root, child):
        with pytest.raises(InvalidParameter, match="one unit"):
            account.split()
    assert Account(RenyiDP(2, 1)).sub_account("same", RenyiDP(2, 1)).split().owed == RenyiDP(2, 0)
    with pytest.raises(InvalidParameter, match="one unit"):
        Account(RenyiDP(2, 1)).sub_account("other", RenyiDP(3, 1)).split()


def test_parts_whose_debits_are_not_proportional_are_not_split_again() -> None:
    """(1, 0) in one part, then (3/2, 1e-6) in another: e^epsilon would see the rise of 1/2."""
    parts = Account(ApproxDP(9, 1e-3)).split(neighbors=ReplaceOne)
    below = parts.part("A").sub_account("below", ApproxDP(9, 1e-3))
    for account in (parts.part("A"), below):
        with pytest.raises(InvalidParameter, match="split again"):
            account.split()
    inner = Account(ZCDP(9)).split(neighbors=ReplaceOne).part("A").split()
    inner.part("x").spend(ZCDP(0.5))
    assert inner.owed == ZCDP(0.5)
    assert Account(ApproxDP(9, 1e-3)).split().part("A").split().owed == ApproxDP(0, 0)


def test_random_trees_debit_exactly_what_a_plain_computation_owes() -> None:
    coin = random.Random(5)
    root = Account(PureDP(10**6))
    outer = root.split(max_parts=2)
    inner = {key: outer.part(key).split(max_parts=1) for key in "abc"}
    direct, own = Fraction(0), dict.fromkeys("abc", Fraction(0))
    leaves = {(key, leaf): Fraction(0) for key in "abc" for leaf in range(3)}
    for _ in range(300):
        cost = Fraction(coin.randrange(100), 7)
        where = coin.choice(["root", "part", "leaf"])
        key, leaf = coin.choice("abc"), coin.randrange(3)
        if where == "root":
            root.spend(PureDP(cost))
            direct += cost
        elif where == "part":
            outer.part(key).spend(PureDP(cost))
            own[key] += cost
        else:
            inner[key].part(leaf).spend(PureDP(cost))
            leaves[key, leaf] += cost
        sums = {key: own[key] + max(leaves[key, leaf] for leaf in range(3)) for key in "abc"}
        assert root.spent == PureDP(direct + sum(sorted(sums.values())[-2:]))
    assert isinstance(root.filter, Filter)
