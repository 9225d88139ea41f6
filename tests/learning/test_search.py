"""Search over trainings: its price by enumeration, what leaves, what is refused, and the ledger."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import gc
import importlib
import itertools
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mpmath import mp, mpf

torch: Any = pytest.importorskip("torch", reason="needs PyTorch, the extra `learning`")

from unacorda import (  # noqa: E402
    GDP,
    ZCDP,
    AddRemove,
    ApproxDP,
    PureDP,
    ReplaceOne,
    SeededBits,
    accounting,
    events,
    learning,
)
from unacorda.errors import BudgetExceeded, FitFailed, InvalidParameter  # noqa: E402
from unacorda.ledger import open_ledger  # noqa: E402
from unacorda.mechanisms.retry import best  # noqa: E402

room: Any = importlib.import_module("unacorda.learning.search")

BUDGET = ApproxDP(2, 1e-5)
TRIES = 6


class Rows(torch.utils.data.Dataset):  # type: ignore[misc]
    """Examples whose label is the sign of a feature; counts those that were read."""

    def __init__(self, count: int = 60) -> None:
        drawn = torch.Generator().manual_seed(1)
        self.x = torch.randn(count, 4, generator=drawn)
        self.y = (self.x[:, :1] > 0).float()
        self.read = 0

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, place: int) -> Any:
        self.read += 1
        return self.x[place], self.y[place]


def held_out(count: int = 400) -> tuple[Any, Any]:
    rows = Rows(count)
    return rows.x, rows.y


def loss(given: Any, target: Any) -> Any:
    errors = torch.nn.functional.binary_cross_entropy_with_logits
    return errors(given, target, reduction="none").sum(1)


def maker(data: Any = None, **changes: Any) -> Callable[..., learning.PrivateTraining]:
    """Makes a training of a linear model; a candidate is its rate, or a dictionary of options."""
    data = Rows() if data is None else data

    def make(candidate: Any, budget: Any, bits: Any) -> learning.PrivateTraining:
        own = candidate if isinstance(candidate, dict) else {}
        torch.manual_seed(1)
        model = torch.nn.Linear(4, 1)
        rate = 0.5 if own else candidate
        settings = {"budget": budget, "bits": bits, "batch_size": 60, "steps": 3} | changes | own
        optimizer = torch.optim.SGD(model.parameters(), lr=rate)
        return learning.PrivateTraining(model, optimizer, data, units=60, clip=1.0, **settings)

    return make


def search(make: Any = None, candidates: Any = (0.01, 4.0), **changes: Any) -> Any:
    settings: dict[str, Any] = {
        "loss": loss, "held_out": held_out(), "budget": BUDGET, "tries": TRIES,
        "bits": SeededBits(1),
    } | changes  # fmt: skip
    return learning.search(make or maker(), candidates, **settings)


def count_tries(monkeypatch: pytest.MonkeyPatch, number: int) -> list[Any]:
    """Set the number of tries; the events that it was drawn for."""
    seen: list[Any] = []

    def drawn(event: Any, *, bits: Any) -> int:
        del bits
        seen.append(event)
        return number

    monkeypatch.setattr(best, "draw_tries", drawn)
    return seen


# ---- the price: worst orders of scores, enumerated in many digits


def delta_of_best(one: list[Any], other: list[Any], f: Callable[[Any], Any]) -> Any:
    """The delta of the best of K runs, of two laws of one run, by rising score; f(x) = E x^K."""
    laws = []
    for law in (one, other):
        sums = [mp.fsum(law[:place]) for place in range(len(law))] + [mpf(1)]
        laws.append([f(b) - f(a) for a, b in itertools.pairwise(sums)])
    grown = mp.exp(mpf(float(BUDGET.epsilon)))
    return mp.fsum(max(a - grown * b, 0) for a, b in zip(*laws, strict=True))


def worst_delta(mu: Any, f: Callable[[Any], Any]) -> Any:
    """The delta that some order of scores attains, of runs that are N(mu, 1) against N(0, 1).

    Cells of the outcome are ordered as their losses from one of them on, and what is below that one
    wins over all.
    """
    edges = [mpf(k) / 8 - 5 for k in range(97)]
    found = mpf(0)
    for start in range(0, len(edges), 2):
        sides = []
        for shift in (mu, mpf(0)):
            below = [mp.ncdf(t - shift) for t in edges[start:]] + [mpf(1)]
            sides.append([*(b - a for a, b in itertools.pairwise(below)), below[0]])
        found = max(found, delta_of_best(sides[0], sides[1], f))
    return found


def tries_of(event: Any) -> Callable[[Any], Any]:
    """The generating function of Definition 1 of Papernot and Steinke."""
    eta, stay = mpf(float(event.shape)), 1 - mpf(float(event.stop))
    if eta == 0:
        return lambda x: mp.log(1 - stay * x) / mp.log(1 - stay)
    return lambda x: ((1 - stay * x) ** -eta - 1) / ((1 - stay) ** -eta - 1)


@pytest.mark.parametrize(("shape", "neighbors"), [(1.0, AddRemove), (0.0, ReplaceOne)])
def test_the_best_try_keeps_the_budget_in_the_worst_order_of_scores(
    shape: float, neighbors: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores: list[Any] = []

    def noted(*given: Any, **options: Any) -> Any:
        scores.append(learning.evaluate(*given, **options))
        return scores[-1]

    monkeypatch.setattr(room, "evaluate", noted)
    found = search(maker(neighbors=neighbors), shape=shape)
    # The noise that was used, of trainings and of scores, in terms of what neighbors differ in.
    multiplier = found.training.plan.noise_multiplier / (2 if neighbors is ReplaceOne else 1)
    score = min(float(each.event.noise_multiplier) for each in scores)
    mu, f = mp.sqrt(3 / mpf(multiplier) ** 2 + 1 / mpf(score) ** 2), tries_of(found.plan.event)
    delta = float(BUDGET.delta)
    assert worst_delta(mu, f) <= delta
    assert worst_delta(mpf("1.1") * mu, f) > delta  # and nothing much is left
    # Of a known number of tries the cost grows with it: planted, and found.
    assert worst_delta(mu, lambda x: x**found.plan.most_tries) > 10 * delta
    # One training with the whole budget, as one that is not searched for, would be too much.
    assert worst_delta(mu * found.plan.noise_ratio, f) > 10 * delta


def test_candidates_that_sample_unlike_are_priced_by_epsilon_and_delta() -> None:
    plan = learning.plan_search(maker(), [{"steps": 3}, {"steps": 5}], budget=BUDGET, tries=TRIES)
    assert not plan.by_curve
    assert plan.noise_ratio > 1.5
    # The worst of such runs (Kairouz, Oh, Viswanath 2015); what is likelier under the other wins.
    grown, failed = mp.exp(mpf(float(plan.each.epsilon))), mpf(float(plan.each.delta))
    high = (1 - failed) / (1 + grown)
    worst = max(
        delta_of_best(
            [mpf(0), high * (grown - low), high * low, high, failed],
            [failed, high * (1 - low / grown), high * low / grown, high * grown, mpf(0)],
            tries_of(plan.event),
        )
        for low in (mpf("1e-3"), mpf("0.1"), grown)
    )
    assert float(BUDGET.delta) / 4 < worst <= float(BUDGET.delta)


def test_the_plan_is_within_the_budget_and_tells_the_number_of_tries() -> None:
    plan = learning.plan_search(maker(), [0.1, 0.2, 0.3], budget=BUDGET, tries=TRIES, shape=1.0)
    assert accounting.epsilon(plan.event, delta=1e-5) <= 2
    assert (plan.candidates, plan.most_tries) == (3, 26)  # ln 100 / -ln(5/6) = 25.3
    assert plan.tries == pytest.approx(TRIES, rel=1e-3)
    assert isinstance(plan.event, events.NegativeBinomialTries)
    text = str(plan)
    for words in ("epsilon 2, delta 1e-05 (AddRemove), for one row", "6 on average", "26 or fewer"):
        assert words in text
    single = learning.plan_search(maker(), [0.1], budget=BUDGET, tries=1)
    assert (single.tries, single.most_tries) == (1, 1)
    assert single.noise_ratio < 1.1 < plan.noise_ratio  # the share of the score alone


# ---- what is run, and what leaves


@pytest.mark.parametrize("minimize", [False, True])
def test_the_best_of_the_drawn_number_of_tries_leaves_alone(
    minimize: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    number, models, scores = 9, [], []
    make = maker()

    def noted_make(*given: Any) -> Any:
        training = make(*given)
        models.append(weakref.ref(training.model))
        return training

    def noted(model: Any, rows: Any, *given: Any, **options: Any) -> Any:
        found = learning.evaluate(model, rows, *given, **options)
        if len(rows[0]):
            scores.append(found.value)
        return found

    monkeypatch.setattr(room, "evaluate", noted)
    drawn_for = count_tries(monkeypatch, number)
    metric = learning.hits if not minimize else lambda given, y: loss(given, y) / 4
    found = search(noted_make, metric=metric, minimize=minimize)
    assert drawn_for == [found.plan.event]
    assert len(scores) == number
    assert found.score.value == (min if minimize else max)(scores)
    gc.collect()
    assert [each() for each in models if each() is not None] == [found.model]
    assert set(vars(found)) == {"candidate", "training", "score", "plan"}
    assert capfd.readouterr() == ("", "")
    # Weights and score state the promise of the search, under which they leave.
    assert found.score.event == found.training.plan.event == found.plan.event
    record = found.training.record().to_dict()["plan"]
    assert record["budget"] == repr(BUDGET)
    assert "NegativeBinomialTries" in record["event"]
    assert "best of a random number" in record["conditions"][-1]


def test_candidates_are_drawn_evenly_and_the_better_one_wins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[float] = []
    make = maker()

    def noted(candidate: float, budget: Any, bits: Any) -> Any:
        tried.append(candidate)
        return make(candidate, budget, bits)

    count_tries(monkeypatch, 200)
    found = search(noted, candidates=[1e-6, 4.0])  # stays where it is, and learns
    assert found.candidate == 4.0
    drawn = tried[4:]  # two of each are for the plan
    assert len(drawn) == 200
    assert 60 < drawn.count(4.0) < 140  # within 5.6 deviations


def test_a_search_is_reproducible_under_seeded_bits() -> None:
    one, two, three = (search(bits=SeededBits(seed)) for seed in (3, 3, 4))
    assert (one.candidate, one.score.value) == (two.candidate, two.score.value)
    assert torch.equal(one.model.weight, two.model.weight)
    assert not torch.equal(one.model.weight, three.model.weight)


def test_a_try_that_fails_on_the_rows_has_the_worst_score(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def failing(given: Any, target: Any) -> Any:
        if len(target) and bool(target.any()) and float(given.detach().abs().max()) > 20:
            raise RuntimeError("of these rows")
        return loss(given, target)

    count_tries(monkeypatch, 12)
    steep = maker(steps=3)
    found = search(steep, candidates=[0.01, 1e6], loss=failing)
    assert found.candidate == 0.01
    ledger = open_ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open_account("people", ApproxDP(3, 1e-4), {})
    with pytest.raises(FitFailed) as raised:
        search(
            steep, candidates=[1e6], loss=failing, bits=None, ledger=ledger, account="people"
        )  # fmt: skip
    assert "rows" not in str(raised.value.__cause__)
    assert ledger.spent("people") == BUDGET
    ledger.close()


# ---- the ledger


def test_the_whole_budget_is_charged_once_before_a_row_is_read(tmp_path: Path) -> None:
    ledger = open_ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open_account("people", ApproxDP(3, 1e-4), {})
    spent: list[Any] = []

    class Seen(Rows):
        def __getitem__(self, place: int) -> Any:
            spent.append(ledger.spent("people"))
            return super().__getitem__(place)

    account: dict[str, Any] = {"ledger": ledger, "account": "people", "bits": None}
    search(maker(Seen()), **account)
    assert set(spent) == {BUDGET} == {ledger.spent("people")}
    unread = Rows()
    with pytest.raises(BudgetExceeded):
        search(maker(unread), **account)
    assert unread.read == 0
    ledger.close()


# ---- refusals


def stepped(make: Any) -> Any:
    def found(*given: Any) -> Any:
        training = make(*given)
        next(iter(training))
        return training

    return found


def test_trainings_that_make_may_not_return_are_refused(tmp_path: Path) -> None:
    data, same = Rows(), torch.nn.Linear(4, 1)

    def shared(candidate: Any, budget: Any, bits: Any) -> Any:
        del candidate
        optimizer = torch.optim.SGD(same.parameters(), lr=0.1)
        training = learning.PrivateTraining(
            same, optimizer, data, budget=budget, bits=bits, units=60, clip=1.0, batch_size=60,
            steps=3,
        )  # fmt: skip
        training.close()
        return training

    ledger = open_ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open_account("people", ApproxDP(3, 1e-4), {})
    make, another = maker(data), ApproxDP(2.5, 1e-5)
    refused: list[tuple[Any, Any, str]] = [
        (lambda *_: torch.nn.Linear(4, 1), None, "PrivateTraining"),
        (lambda c, b, bits: make(c, another, bits), None, "budget that it is given"),
        (maker(data, budget=BUDGET), None, "budget that it is given"),  # right for the plan alone
        (maker(data, ledger=ledger, account="people"), None, "without a ledger"),
        (maker(data, checkpoint=tmp_path / "run.pt"), None, "without a ledger and a checkpoint"),
        (maker(data, bits=SeededBits(1)), None, "bits that it is given"),
        (shared, None, "new model each time"),
    ]
    for wrong, bits, words in refused:
        with pytest.raises(InvalidParameter, match=rf"(?s)make.*{words}"):
            search(wrong, bits=bits, ledger=ledger, account="people")
    assert data.read == 0
    with pytest.raises(InvalidParameter, match=r"make.*taken no step"):
        search(stepped(maker()))
    untouched: Any = ledger.spent("people")
    assert untouched.epsilon == 0
    ledger.close()


def test_a_training_with_less_noise_in_a_later_try_is_refused() -> None:
    calls: list[int] = []
    make = maker()

    def later(candidate: Any, budget: Any, bits: Any) -> Any:
        calls.append(1)
        return make(candidate, ApproxDP(8, 1e-5) if len(calls) > 4 else budget, bits)

    with pytest.raises(InvalidParameter, match=r"make.*budget that it is given"):
        search(later)


def forged(candidate: Any, budget: Any, bits: Any) -> Any:
    """A plan that states the budget, with the noise of another one."""
    training = maker()(candidate, ApproxDP(8, 1e-5), bits)
    training.plan = room.replace(training.plan, budget=budget)
    return training


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a forged plan": ({"make": forged}, "make.*samples alike"),
    "pure": ({"budget": PureDP(1)}, "budget.*ApproxDP with a delta"),
    "no delta": ({"budget": ApproxDP(1, 0)}, "budget.*ApproxDP with a delta"),
    "zCDP": ({"budget": ZCDP(1)}, "budget.*ApproxDP with a delta"),
    "GDP": ({"budget": GDP(1)}, "budget.*ApproxDP with a delta"),
    "a budget of nothing": ({"budget": ApproxDP(1e-6, 1e-9)}, "budget.*(fewer tries|fewer steps)"),
    "no candidates": ({"candidates": []}, "candidates.*one or more"),
    "half a try": ({"tries": 0.5}, "tries.*from 1"),
    "no shape": ({"shape": -1}, "shape"),
    "all for scores": ({"share": 1}, "share.*between 0 and 1"),
    "a mean loss": ({"loss": lambda given, y: loss(given, y).mean()}, "loss.*number an example"),
    "a mean metric": ({"metric": lambda given, y: loss(given, y).mean()}, "metric.*number per row"),
    "no rows": ({"held_out": 3}, "held_out"),
    "ids of units alone": ({"unit": list(range(400))}, "unit.*as for the trainings"),
    "few ids": ({"unit": [1, 2]}, "unit.*one id"),
    "an account alone": ({"account": "people"}, "account.*ledger"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_done_is_refused_before_a_row_is_read(name: str) -> None:
    options, words = REFUSED[name]
    data = Rows()
    with pytest.raises((InvalidParameter, TypeError), match=f"(?s){words}"):
        search(**{"make": maker(data), "candidates": (0.1, 0.2)} | options)
    assert data.read == 0


class Fixed(torch.nn.Linear):  # type: ignore[misc]
    """A layer with a part that is drawn and not trained."""

    def __init__(self) -> None:
        super().__init__(4, 1)
        self.register_buffer("part", torch.randn(3))


def test_neither_first_weights_nor_later_numbers_tell_of_tries() -> None:
    parts, later = set(), set()
    data = torch.randn(60, 4), torch.ones(60, 1)

    def make(candidate: Any, budget: Any, bits: Any) -> learning.PrivateTraining:
        own = Fixed()
        optimizer = torch.optim.SGD(own.parameters(), lr=candidate)
        return learning.PrivateTraining(
            own, optimizer, data, budget=budget, units=60, batch_size=60, steps=2,
            clip=1.0, bits=bits,
        )  # fmt: skip

    for seed in range(8):
        torch.manual_seed(3)
        found = search(make, bits=SeededBits(seed))
        parts.add(tuple(found.model.part.tolist()))
        later.add(torch.rand(1).item())
    assert (len(parts), len(later)) == (8, 1)
