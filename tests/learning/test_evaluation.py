"""Evaluation on held-out rows: the exact mean, its noise, what one unit moves, and the ledger."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch")

from unacorda import (  # noqa: E402  # noqa: E402
    GDP,
    ZCDP,
    AddRemove,
    ApproxDP,
    PureDP,
    ReplaceOne,
    SeededBits,
    accounting,
    learning,
)
from unacorda.errors import BudgetExceeded, InvalidParameter  # noqa: E402
from unacorda.learning import evaluation  # noqa: E402
from unacorda.learning.evaluation import cross_entropy, evaluate, hits  # noqa: E402
from unacorda.ledger import open_ledger  # noqa: E402


def rows(count: int = 700) -> tuple[Any, Any]:
    drawn = torch.Generator().manual_seed(3)
    return (
        torch.randn(count, 4, generator=drawn),
        torch.randint(0, 3, (count,), generator=drawn),
    )


def model() -> Any:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 3))


class Scores(torch.nn.Module):  # type: ignore[misc]
    """Outputs that are the inputs."""

    def forward(self, given: Any) -> Any:
        return given


def given(output: Any, _: Any) -> Any:
    return output[:, 0]


class Recorded:
    """A mechanism without noise that keeps what it is given."""

    event = None
    scale = sigma = 1.0

    def __init__(self) -> None:
        self.sums: list[Any] = []

    def release(self, sums: Any, *, bits: Any) -> Any:
        del bits
        self.sums.append(sums.copy())
        return sums


# ---- values


@pytest.mark.parametrize("batch_size", [1, 64, 256, 1000])
def test_public_rows_give_the_exact_mean(batch_size: int) -> None:
    x, y = rows()
    trained = model().eval()
    found = evaluate(trained, (x, y), hits, budget=None, batch_size=batch_size)
    expected = (trained(x).argmax(1) == y).double().mean().item()
    assert found.value == pytest.approx(expected, rel=1e-12)
    assert (found.noise_error, found.units, found.event) == (0.0, 700, None)


def test_cross_entropy_is_clamped() -> None:
    x, y = rows()
    trained = model().eval()
    loss = torch.nn.functional.cross_entropy(trained(x), y, reduction="none").double()
    found = evaluate(trained, (x, y), cross_entropy, budget=None, bound=1.1)
    assert found.value == pytest.approx(loss.clamp(0, 1.1).mean().item(), abs=2e-5)


@pytest.mark.parametrize("budget", [PureDP(0.5), ApproxDP(0.5, 1e-6), ZCDP(0.02), GDP(0.2)])
def test_the_noise_has_the_error_that_is_shown(budget: Any) -> None:
    x, y = rows()
    trained = model().eval()
    bits = SeededBits(4)
    runs = [evaluate(trained, (x, y), hits, budget=budget, bits=bits) for _ in range(200)]
    truth = evaluate(trained, (x, y), hits, budget=None).value
    errors = np.array([(run.value - truth) / run.noise_error for run in runs])
    # Mean and mean square of 200: six standard errors, false alarm below 1e-6 each (kurtosis 6).
    assert abs(errors.mean()) < 6 / math.sqrt(200)
    assert abs((errors**2).mean() - 1) < 6 * math.sqrt(5 / 200)


@pytest.mark.parametrize("budget", [PureDP(0.5), ApproxDP(0.5, 1e-6), ZCDP(0.02), GDP(0.2)])
@pytest.mark.parametrize("neighbors", [AddRemove, ReplaceOne])
def test_the_event_keeps_the_budget(budget: Any, neighbors: Any) -> None:
    found = evaluate(model(), rows(), hits, budget=budget, neighbors=neighbors)
    event = found.event
    assert event is not None
    if isinstance(budget, PureDP):
        assert accounting.epsilon(event, delta=0) <= 0.5 * (1 + 1e-9)
    elif isinstance(budget, ApproxDP):
        assert accounting.epsilon(event, delta=1e-6) <= 0.5 * (1 + 1e-6)
    else:
        assert event.noise_multiplier >= 5 * (1 - 1e-12)  # type: ignore[attr-defined]


# ---- what one unit moves


EXTREMES = [0.0, 1.0, 0.3, -5.0, 1e300, math.inf, -math.inf, math.nan]


@pytest.mark.parametrize("one", EXTREMES)
@pytest.mark.parametrize("other", [0.0, math.inf, math.nan])
def test_one_unit_moves_the_sums_by_at_most_its_sensitivity(
    one: float, other: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Recorded()
    monkeypatch.setattr(evaluation, "_mechanism", lambda *_: seen)
    base = torch.tensor([[0.2], [0.9], [7.0]], dtype=torch.float64)
    changed = [torch.tensor([[value]], dtype=torch.float64) for value in (one, other)]
    for x in (base, *(torch.cat([base, each]) for each in changed)):
        evaluate(Scores(), (x, torch.zeros(len(x))), given, budget=PureDP(1), bits=SeededBits(1))
    without, first, second = seen.sums
    assert np.abs(first - without).sum() <= 1
    assert np.abs(first - second).sum() <= 2
    assert np.linalg.norm(first - second) <= math.sqrt(2)


def test_a_unit_of_many_rows_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Recorded()
    monkeypatch.setattr(evaluation, "_mechanism", lambda *_: seen)
    x = torch.tensor([[1.0]] * 50 + [[0.0], [0.5], [0.0]])
    unit = ["a"] * 50 + ["b", "b", "c"]
    evaluate(Scores(), (x, torch.zeros(53)), given, budget=PureDP(1), unit=unit)
    assert seen.sums[0].tolist() == [1.25, 1.75]


def test_no_rows_give_noise_alone() -> None:
    nothing = torch.zeros(0, 4), torch.zeros(0, dtype=torch.long)
    for seed in range(10):
        found = evaluate(model(), nothing, hits, budget=PureDP(1), bits=SeededBits(seed))
        assert math.isnan(found.value) == (found.noise_error == math.inf)
    assert math.isnan(evaluate(model(), nothing, hits, budget=None).value)


def test_modes_are_restored() -> None:
    trained = model().train()
    trained[1].eval()
    evaluate(trained, rows(), hits, budget=None)
    assert [each.training for each in trained.modules()] == [True, True, False, True]


# ---- the ledger


def test_the_account_is_charged_before_a_row_is_read(tmp_path: Path) -> None:
    ledger = open_ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open_account("people", ApproxDP(1, 1e-5), {})
    spent: list[Any] = []

    def metric(output: Any, target: Any) -> Any:
        spent.append(ledger.spent("people"))
        return hits(output, target)

    account: dict[str, Any] = {"ledger": ledger, "account": "people"}
    evaluate(model(), rows(100), metric, budget=ApproxDP(0.7, 1e-6), **account)
    assert spent[0] == spent[1] != spent[-1] == ledger.spent("people")  # made-up rows come first
    seen = len(spent)
    with pytest.raises(BudgetExceeded):
        evaluate(model(), rows(100), metric, budget=ApproxDP(0.7, 1e-6), **account)
    assert len(spent) == seen + 2
    ledger.close()


# ---- bad input


class Centered(torch.nn.Module):  # type: ignore[misc]
    """A planted fault: outputs depend on the mean of the batch."""

    def forward(self, x: Any) -> Any:
        return x - x.mean(0)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no model": ({"model": 3}, "model"),
    "rows that mix": ({"model": Centered(), "metric": given}, "model"),
    "one tensor": ({"held_out": (torch.zeros(3, 4),)}, "held_out"),
    "lengths": ({"held_out": (torch.zeros(3, 4), torch.zeros(2))}, "held_out"),
    "a mean": ({"metric": lambda o, _: o.mean()}, "metric"),
    "no tensor": ({"metric": lambda *_: 0.5}, "metric"),
    "a bound of 0": ({"bound": 0}, "bound"),
    "units": ({"unit": [1, 2]}, "unit"),
    "a budget": ({"budget": 1.0}, "budget"),
    "neighbors": ({"neighbors": "rows"}, "neighbors"),
    "an account": ({"account": "people"}, "account"),
    "a batch size": ({"batch_size": 0}, "batch_size"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_by_name(case: str) -> None:
    changed, name = BAD[case]
    asked = {"model": model(), "held_out": rows(20), "metric": hits, "budget": PureDP(1), **changed}
    with pytest.raises(InvalidParameter, match=name):
        evaluate(asked.pop("model"), asked.pop("held_out"), asked.pop("metric"), **asked)


def test_it_is_part_of_the_face() -> None:
    assert learning.evaluate is evaluate


# ---- probabilities for tables of scores


def test_probabilities_are_the_softmax_or_the_sigmoid_of_outputs() -> None:
    torch.manual_seed(1)
    x, y = torch.randn(300, 4), torch.randint(0, 3, (300,))
    many = torch.nn.Linear(4, 3).train()
    scores, labels = learning.probabilities(many, (x, y), batch_size=64)
    assert many.training
    right = torch.softmax(many(x).double(), dim=1).detach().numpy()
    assert scores == pytest.approx(right, abs=1e-6)
    assert labels.tolist() == y.tolist()
    one = torch.nn.Linear(4, 1)
    scores, _ = learning.probabilities(one, (x, y))
    assert scores[:, 1] == pytest.approx(torch.sigmoid(one(x))[:, 0].detach().numpy(), abs=1e-6)
    assert learning.probabilities(one, (x[:0], y[:0]))[0].shape == (0, 2)


def test_probabilities_give_a_noisy_area() -> None:
    inference = pytest.importorskip("unacorda.inference")
    x = torch.linspace(-2, 2, 4000)[:, None]
    y = (x[:, 0] > 0).long()
    scores, labels = learning.probabilities(torch.nn.Linear(1, 1), (x, y))
    order = 1 if scores[-1, 1] > scores[0, 1] else 0
    table = inference.score_table(None, scores[:, order], labels, budget=ZCDP(1))
    assert table.auc().value > 0.9


def test_probabilities_need_a_model_whose_rows_stand_alone() -> None:
    for given, name in (((3, rows(20)), "model"), ((Centered(), rows(20)), "model")):
        with pytest.raises(InvalidParameter, match=name):
            learning.probabilities(*given)
