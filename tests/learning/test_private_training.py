"""Private training: what is drawn is what is priced, refusals before a row is read, whole runs."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import signal
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binomtest

torch = pytest.importorskip("torch", reason="needs PyTorch, the extra `learning`")

from torch import nn  # noqa: E402

import unacorda  # noqa: E402
from unacorda import (  # noqa: E402
    GDP,
    AddRemove,
    ApproxDP,
    PureDP,
    ReplaceOne,
    SeededBits,
    ZeroOut,
    accounting,
    learning,
)
from unacorda.bits import KeyedBits, ScriptedBits  # noqa: E402
from unacorda.errors import BudgetExceeded, InvalidParameter  # noqa: E402
from unacorda.learning.batches import chunks_of  # noqa: E402
from unacorda.learning.noise.gaussian import add_gaussian  # noqa: E402
from unacorda.learning.noise.keys import NoiseKey  # noqa: E402
from unacorda.learning.sampling import Batches, _different  # noqa: E402
from unacorda.learning.training import _CHUNKS, _COINS  # noqa: E402
from unacorda.ledger import open_ledger  # noqa: E402

BUDGET = ApproxDP(2, 1e-5)
KEY = NoiseKey(bytes(range(32)), secure=False)
SCHEMES = [
    learning.PoissonSampling(),
    learning.FullBatch(),
    learning.FixedSizeSampling(),
    learning.AllocatedSteps(),
]


def rows(count: int = 200, seed: int = 1) -> tuple[Any, Any]:
    drawn = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 4, generator=drawn)
    return x, (x[:, :1] > 0).float()


def loss(given: Any, target: Any) -> Any:
    return nn.functional.binary_cross_entropy_with_logits(given, target, reduction="none").sum(1)


def model(seed: int = 1) -> Any:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))


def training(own: Any = None, data: Any = None, **options: Any) -> Any:
    own = model() if own is None else own
    settings: dict[str, Any] = {
        "budget": BUDGET,
        "units": 200,
        "batch_size": 40,
        "steps": 10,
        "clip": 1.0,
        "bits": SeededBits(1),
    } | options
    optimizer = settings.pop("optimizer", None) or torch.optim.SGD(own.parameters(), lr=0.5)
    return learning.PrivateTraining(own, optimizer, rows() if data is None else data, **settings)


def run(private: Any) -> list[int]:
    sizes = []
    for *given, target in private:
        private.step(loss(private.model(*given), target))
        sizes.append(len(target))
    return sizes


def weights_of(private: Any) -> Any:
    return torch.cat([p.detach().reshape(-1) for p in private.model.parameters()])


# Sampling


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda one: type(one).__name__)
def test_units_are_drawn_as_the_event_says(scheme: Any) -> None:
    of = Batches(
        units=60, batch_size=60 if isinstance(scheme, learning.FullBatch) else 15, steps=40
    )
    counts, pairs = np.zeros(60), 0
    for run_ in range(20):
        drawn = scheme.draws(60, of, lambda step, run_=run_: KEY.stream(run_, step))
        for step in range(of.steps):
            members = drawn(step)
            assert np.all(np.diff(members) > 0)
            counts[members] += 1
            pairs += {3, 7} <= set(members.tolist())
            assert np.array_equal(members, drawn(step))  # the same at each call
    rate, many = of.batch_size / of.units, 20 * of.steps
    if isinstance(scheme, learning.FullBatch):
        assert np.all(counts == many)
        return
    if isinstance(scheme, learning.AllocatedSteps):
        assert np.all(counts == 20 * 10)  # ten uses a unit and run
    # 61 tests of 800 coins: one falls below 1e-7 with a chance of 6e-6.
    assert min(binomtest(int(count), many, rate).pvalue for count in counts) > 1e-7
    both = rate * 14 / 59 if isinstance(scheme, learning.FixedSizeSampling) else rate**2
    if not isinstance(scheme, learning.AllocatedSteps):
        assert binomtest(pairs, many, both).pvalue > 1e-7


def test_the_rate_is_the_share_of_words_and_never_above_the_one_asked_for() -> None:
    of = Batches(units=3 * 10**7, batch_size=10, steps=5)
    rate = learning.PoissonSampling.rate(of)
    assert 0 < Fraction(10, 3 * 10**7) - rate < Fraction(1, 2**64)
    event = training(units=70, batch_size=20, steps=5, data=rows(70)).plan.event
    assert Fraction(event.event.rate) == learning.PoissonSampling.rate(
        Batches(units=70, batch_size=20, steps=5)
    )


@pytest.mark.parametrize("neighbors", [AddRemove, ZeroOut, ReplaceOne], ids=repr)
@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda one: type(one).__name__)
def test_the_plan_keeps_its_budget_and_hardly_more_noise(scheme: Any, neighbors: Any) -> None:
    options: dict[str, Any] = {"sampling": scheme, "neighbors": neighbors}
    if isinstance(scheme, learning.AllocatedSteps):
        options |= {"steps": 5}
    if isinstance(scheme, learning.FullBatch):
        options["batch_size"] = 200
    if isinstance(scheme, learning.FixedSizeSampling) and neighbors is not ReplaceOne:
        with pytest.raises(InvalidParameter, match="ReplaceOne"):
            training(**options)
        return
    plan = training(**options).plan
    spent = accounting.epsilon(plan.event, delta=1e-5, neighbors=neighbors)
    assert spent <= 2 < spent * (1 + 1e-2)


def test_who_is_replaced_moves_a_sum_twice() -> None:
    options: dict[str, Any] = {"sampling": learning.FullBatch(), "batch_size": 200}
    one = training(neighbors=ZeroOut, **options).plan.noise_multiplier
    assert training(neighbors=ReplaceOne, **options).plan.noise_multiplier == pytest.approx(2 * one)


def test_equal_words_of_a_unit_are_drawn_again() -> None:
    words = ScriptedBits([1, 2, 3, 5, 5, 6, 7, 9, 8], then=SeededBits(1))
    found = _different(words, 3, 3)
    assert found[0].tolist() == [1, 2, 3]
    assert found[2].tolist() == [7, 9, 8]
    assert len(set(found[1].tolist())) == 3


# Runs


def test_a_run_learns_and_says_what_it_did(tmp_path: Path) -> None:
    data = rows(2000)
    private = learning.fit(
        model(),
        loss,
        data,
        optimizer=None,
        budget=ApproxDP(3, 1e-5),
        units=2000,
        batch_size=400,
        epochs=20,
        clip=1.0,
        average=0.9,
        bits=SeededBits(1),
    )
    x, y = rows(1000, seed=2)
    with torch.no_grad():
        right = ((private.model(x) > 0).float() == y).float().mean()
    assert right > 0.85
    path = tmp_path / "model.pt"
    record = private.release(str(path))
    held = torch.load(path, weights_only=True)
    assert set(held) == {"weights", "record", "averaged"}
    assert held["record"]["plan"]["batch_size"] == 400
    assert held["record"]["steps"] == record.steps == 100
    assert not record.secure
    assert str(private.plan).count("\n") >= 8
    fresh = model()
    fresh.load_state_dict(held["weights"])


def autoencoder(images: Any, *, epsilon: float | None) -> Any:
    """A user's own loop, with a schedule of rates, as it is and private in three changes."""
    torch.manual_seed(1)
    encoder = nn.Sequential(nn.Linear(36, 16), nn.GELU(), nn.Linear(16, 4))
    model = nn.Sequential(encoder, nn.Linear(4, 36), nn.Sigmoid())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    rates = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40)
    if epsilon is None:
        for _ in range(40):
            errors = (model(images) - images).square().mean(1)
            optimizer.zero_grad()
            errors.mean().backward()
            optimizer.step()
            rates.step()
        return model
    training = learning.PrivateTraining(  # 1: in place of a loader
        model,
        optimizer,
        (images,),
        budget=ApproxDP(epsilon, 1e-5),
        units=2000,
        batch_size=500,
        steps=40,
        clip=0.05,
        physical=1000,
        bits=SeededBits(1),
    )
    for (batch,) in training:
        errors = (model(batch) - batch).square().mean(1)  # 2: one number an example
        training.step(errors)  # 3: in place of zero_grad, backward and step
        rates.step()
    return model


@pytest.mark.long
def test_an_autoencoder_becomes_private_in_three_changes() -> None:
    drawn = torch.Generator().manual_seed(1)
    hidden, shape = torch.randn(2000, 2, generator=drawn), torch.randn(2, 36, generator=drawn)
    images = torch.sigmoid(2 * hidden @ shape)

    def error(model: Any) -> float:
        return float((model(images) - images).square().mean().detach())

    plain, private = (error(autoencoder(images, epsilon=epsilon)) for epsilon in (None, 8))
    alone = float((images - images.mean(0)).square().mean())  # of the mean image
    assert private < 1.2 * plain < alone / 2


def test_a_plan_is_shown_as_text_and_as_a_table() -> None:
    plan = training(noise="auto").plan
    assert str(plan).splitlines()[0].startswith("promise")
    assert "0: Linear" in str(plan)
    page = plan._repr_html_()
    assert page.count("<tr>") == len(plan.facts) == len(str(plan).splitlines())
    assert '<th scope="row">error</th>' in page


def test_seeded_runs_repeat_and_unseeded_ones_do_not() -> None:
    first, second = training(), training()
    run(first), run(second)
    assert torch.equal(weights_of(first), weights_of(second))
    third, fourth = training(bits=None), training(bits=None)
    run(third), run(fourth)
    assert not torch.equal(weights_of(third), weights_of(fourth))
    assert third.record().secure


def test_without_noise_a_run_is_plain_gradient_descent() -> None:
    private = training(
        budget=ApproxDP(10**6, 0.5),
        batch_size=200,
        sampling=learning.FullBatch(),
        clip=1e3,
        steps=5,
    )
    run(private)
    own = model()
    plain = torch.optim.SGD(own.parameters(), lr=0.5)
    x, y = rows()
    for _ in range(5):
        plain.zero_grad()
        loss(own(x), y).mean().backward()
        plain.step()
    expected = torch.cat([p.detach().reshape(-1) for p in own.parameters()])
    # A clip of 1,000 makes the noise of this budget about 1e-1 of a sum of 200.
    assert private.plan.noise < 5
    assert float((weights_of(private) - expected).abs().max()) < 0.2


def test_physical_batches_have_one_shape_and_change_nothing_but_noise() -> None:
    found = []
    for physical in (16, 64, 200):
        private = training(physical=physical, budget=ApproxDP(30, 1e-5))
        assert set(run(private)) == {physical}
        found.append(weights_of(private))
    # The noise is the same, and sums differ by the rounding of float32.
    assert float((found[0] - found[1]).abs().max()) < 1e-5
    assert float((found[0] - found[2]).abs().max()) < 1e-5


@pytest.mark.parametrize("more", [0, 7, 299])
def test_a_unit_more_leaves_the_other_chunks_as_they_were(more: int) -> None:
    plan = training(units=300, data=rows(300), batch_size=40, physical=16).plan
    words = SeededBits(3).words(300)

    def chunks(units: Any) -> list[set[int]]:
        given = ScriptedBits([int(word) for word in words[units]], then=SeededBits(4))
        return [set(part.tolist()) for _, part in chunks_of(units, plan, given)]

    everybody = np.arange(300)
    whole, less = chunks(everybody), chunks(everybody[everybody != more])
    assert max(map(len, whole)) <= 16
    assert set.union(*whole) == set(range(300))
    changed = [part for part in less if part not in whole]
    new = [part for part in whole if part not in less]
    assert len(changed) <= 1
    assert set().union(*new) == set().union(*changed) | {more}
    same = ScriptedBits([5] * 40, then=SeededBits(4))  # no bits part them
    parts = [len(part) for _, part in chunks_of(np.arange(40), plan, same)]
    assert sorted(parts) == [8, 16, 16]


def test_steps_without_anybody_never_reach_the_model() -> None:
    private = training(data=rows(2), units=1000, batch_size=1, steps=30)
    before = weights_of(private)
    sizes = run(private)
    assert private.steps_done == 30
    assert len(sizes) <= 3
    assert not torch.equal(before, weights_of(private))  # noise alone moves it


@pytest.mark.parametrize("arithmetic", ["float64", "float32"])
@pytest.mark.parametrize("physical", [4, 256])  # with 4 rows at once chunks overflow
def test_one_row_more_moves_the_sum_by_at_most_the_sensitivity(
    physical: int, arithmetic: Any
) -> None:
    sums: list[dict[str, Any]] = []

    class Watched(learning.PrivateTraining):
        def _finish(self, found: Any) -> None:
            sums.append({name: values.clone() for name, values in found.items()})
            learning.PrivateTraining._finish(self, found)

    x, y = rows(64)
    x = x * 100
    for count in (64, 63):
        own = model()
        private = Watched(
            own, torch.optim.SGD(own.parameters(), lr=0.0), (x[:count], y[:count]),
            budget=BUDGET, units=64, batch_size=32, steps=6, clip=0.1,
            physical=physical, arithmetic=arithmetic, bits=SeededBits(1),
        )  # fmt: skip
        run(private)
    for one, other in zip(sums[:6], sums[6:], strict=True):
        moved = torch.sqrt(sum((one[n] - other[n]).square().sum() for n in one))
        assert float(moved) <= private.plan.sensitivity


# Units of several rows


def test_units_bring_so_many_rows_and_count_once() -> None:
    x, y = rows(60)
    ids = np.repeat(np.arange(12), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 4, 1])
    private = training(data=(x, y), unit=ids, rows=3, units=12, batch_size=6, steps=8)
    assert private.plan.rows == 3
    assert private.plan.physical % 3 == 0
    run(private)
    data = private._data
    batch, weights = data.batch(np.array([0, 9, 2]), room=5, bits=SeededBits(1))
    assert [tuple(each.shape) for each in batch] == [(15, 4), (15, 1)]
    assert weights.reshape(5, 3).sum(1).tolist() == pytest.approx([1, 1, 1, 0, 0])
    assert weights[:3].tolist() == [1, 0, 0]
    chosen = np.zeros(10)
    for seed in range(200):
        picked = data._rows(np.array([9]), SeededBits(seed))[0]
        assert len(set(picked.tolist())) == 3
        chosen[picked - 45] += 1
    assert min(binomtest(int(one), 200, 0.3).pvalue for one in chosen) > 1e-6


# Refusals before a row is read


class Counted:
    """A dataset that counts how often it is read."""

    def __init__(self, count: int = 200) -> None:
        self.tensors, self.read = rows(count), 0

    def __len__(self) -> int:
        return len(self.tensors[0])

    def __getitem__(self, place: int) -> Any:
        self.read += 1
        return tuple(each[place] for each in self.tensors)


class Centered(nn.Module):  # type: ignore[misc]
    """Takes the mean of the batch off."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x: Any) -> Any:
        found = self.layer(x)
        return found - found.mean(0)


def foreign() -> Any:
    return torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no units": ({"units": None}, "units.*private"),
    "units of no number": ({"units": -3}, "units"),
    "batch above units": ({"batch_size": 201}, "batch_size.*at most"),
    "both lengths": ({"epochs": 3}, "steps"),
    "no length": ({"steps": None}, "steps"),
    "a pure budget": ({"budget": PureDP(1)}, "budget"),
    "a normal budget": ({"budget": GDP(1)}, "budget.*ApproxDP"),
    "a budget of nothing": (
        {"budget": ApproxDP(1e-12, 1e-30)},
        r"budget.*such as ApproxDP\(0\.\d+, 1e-30\).*fewer steps",
    ),
    "no clip": ({"clip": 0.0}, "norm"),
    "foreign parameters": ({"optimizer": "foreign"}, "optimizer.*this model"),
    "no optimizer": ({"optimizer": 3}, "optimizer"),
    "closures": ({"optimizer": "lbfgs"}, "LBFGS"),
    "rows without units": ({"rows": 3}, "rows.*unit="),
    "units without rows": ({"unit": np.arange(200)}, "rows"),
    "too few ids": ({"unit": np.arange(7), "rows": 1}, "unit"),
    "other number": ({"neighbors": ZeroOut, "units": 199, "batch_size": 20}, "units.*200"),
    "everybody but some": ({"sampling": learning.FullBatch()}, "batch_size.*everybody"),
    "uses": ({"sampling": learning.AllocatedSteps(uses=3)}, "uses"),
    "no scheme": ({"sampling": "poisson"}, "sampling"),
    "averages": ({"average": 1.5}, "average"),
    "an account alone": ({"account": "flights"}, "account.*ledger"),
    "a quantile and bands": (
        {"clip": learning.FollowedQuantile(norm=1.0), "noise": learning.Banded(bands=2)},
        "noise.*one bound in all steps",
    ),
    "a quantile and canaries": (
        {"clip": learning.FollowedQuantile(norm=1.0), "canaries": "dirac"},
        "canaries.*above the bound",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_done_is_refused_before_a_row_is_read(name: str) -> None:
    options, words = REFUSED[name]
    data, own = Counted(), model()
    options = dict(options)
    if options.get("optimizer") == "foreign":
        options["optimizer"] = foreign()
    elif options.get("optimizer") == "lbfgs":
        options["optimizer"] = torch.optim.LBFGS(own.parameters())
    if options.get("canaries") == "dirac":
        options["canaries"] = learning.dirac(own, count=3)
    with pytest.raises(InvalidParameter, match=f"(?s){words}"):
        training(own, data, **options)
    assert data.read == 0


def test_models_that_mix_rows_and_streams_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="depend on that example"):
        training(Centered())

    class Stream(torch.utils.data.IterableDataset):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Any:
            return iter(())

    for data in (Stream(), 3):
        with pytest.raises(InvalidParameter, match="dataset"):
            training(data=data)
    with pytest.raises(InvalidParameter, match="one length"):
        training(data=(torch.ones(3, 4), torch.ones(2, 1)))


class Named(nn.Module):  # type: ignore[misc]
    """Takes and gives parts by name; centered: by the mean of the batch, which mixes."""

    def __init__(self, *, centered: bool) -> None:
        super().__init__()
        self.line, self.centered = nn.Linear(4, 1), centered

    def forward(self, x: Any) -> dict[str, Any]:
        return {"kept": None, "found": [self.line(x - x.mean(0) if self.centered else x)]}


class Whole(Named):
    """Takes a dictionary as one."""

    def forward(self, batch: Any) -> Any:
        return super().forward(batch["x"])


class ByName(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
    """Examples as dictionaries, of a length of their own where asked."""

    def __init__(self, *, lengths: bool = False) -> None:
        self.lengths = lengths

    def __len__(self) -> int:
        return 40

    def __getitem__(self, place: int) -> Any:
        return {"x": torch.ones(4 + place % 3 if self.lengths else 4), "y": torch.tensor(1.0)}


@pytest.mark.parametrize("kind", [Named, Whole])
def test_models_of_dictionaries_are_tried_for_mixing(kind: type[Named]) -> None:
    apart = training(kind(centered=False), ByName())
    for batch in apart:
        found = apart.model(**{"x": batch["x"]} if kind is Named else {"batch": batch})
        apart.step((found["found"][0][:, 0] - batch["y"]) ** 2)
    with pytest.raises(InvalidParameter, match="depend on that example"):
        next(iter(training(kind(centered=True), ByName())))


def test_batches_whose_examples_change_their_shape_are_refused() -> None:
    """A text padded to the longest of its batch would be felt by all others of it."""

    def padded(rows: list[Any]) -> Any:
        x = nn.utils.rnn.pad_sequence([row["x"] for row in rows], batch_first=True)
        return [x.sum(1, keepdim=True).expand(-1, 4) * torch.ones(len(rows), 4), x]

    private = training(data=ByName(lengths=True), collate=padded, physical=1)

    def looped() -> None:
        for x, _ in private:
            private.step(loss(private.model(x), x.sum(1, keepdim=True)))

    with pytest.raises(InvalidParameter, match="pad them to a stated length"):
        looped()


def test_the_mixing_check_leaves_modes_and_random_numbers_as_they_were() -> None:
    own = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.5), nn.Linear(6, 1))
    own[1].eval()
    torch.manual_seed(5)
    training(own)
    drawn = torch.rand(1)
    torch.manual_seed(5)
    assert torch.equal(drawn, torch.rand(1))
    assert own.training
    assert not own[1].training


def test_a_loop_that_forgets_or_repeats_a_step_is_stopped() -> None:
    private = training()
    with pytest.raises(RuntimeError, match="every batch"):
        list(private)
    private = training()
    with pytest.raises(RuntimeError, match="follows a batch"):
        private.step(torch.ones(3))
    for *given, target in private:
        losses = loss(private.model(*given), target)
        with pytest.raises(InvalidParameter, match="one number an example"):
            private.step(losses[:3])
        break


# The ledger


def test_the_budget_is_reserved_whole_before_a_row_is_read(tmp_path: Path) -> None:
    ledger = open_ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open_account("people", ApproxDP(3, 1e-4), {})

    def spent() -> float:
        found = ledger.spent("people")
        assert isinstance(found, ApproxDP)
        return float(found.epsilon)

    private = training(data=Counted(), ledger=ledger, account="people", physical=64, bits=None)
    assert spent() == 0
    batches = iter(private)
    *given, target = next(batches)
    assert spent() == 2
    private.step(loss(private.model(*given), target))
    for *given, target in batches:
        private.step(loss(private.model(*given), target))
    assert spent() == 2  # once
    again = training(data=Counted(), ledger=ledger, account="people", bits=None)
    with pytest.raises(BudgetExceeded):
        next(iter(again))
    assert again._data.dataset.read == 0
    seeded = training(data=Counted(), ledger=ledger, account="people")
    with pytest.raises(InvalidParameter, match=r"bits|reproducible|seed"):
        next(iter(seeded))
    ledger.close()


def test_a_session_is_debited_and_must_protect_the_same() -> None:
    table = pa.table({"who": np.arange(200), "x": np.zeros(200)})
    person, row = unacorda.Person("who", max_rows=1), unacorda.Row()
    with unacorda.Session({"t": table}, unit=person, budget=ApproxDP(3, 1e-4)) as session:
        ids = np.arange(200)
        private = training(session=session, unit=ids, rows=1, bits=None)
        run(private)
        assert session.spent == BUDGET
        with pytest.raises(BudgetExceeded):
            run(training(session=session, unit=ids, rows=1, bits=None))
        for_one = session.for_analyst("ana", budget=ApproxDP(0.5, 1e-5))
        with pytest.raises(BudgetExceeded):
            run(training(session=for_one, unit=ids, rows=1, bits=None))
        for wrong, words in (
            ({}, "unit.*the person of each row"),
            ({"unit": ids, "rows": 1, "neighbors": ReplaceOne}, "neighbors.*AddRemove"),
            ({"unit": ids, "rows": 1, "ledger": 3}, "ledger.*session="),
        ):
            with pytest.raises(InvalidParameter, match=f"(?s){words}"):
                training(session=session, **wrong)
        with pytest.raises(InvalidParameter, match=r"an unacorda\.Session"):
            training(session=3)
    with pytest.raises(InvalidParameter, match="closed"):
        training(session=session, unit=ids, rows=1)
    with unacorda.Session({"t": table}, unit=row, budget=ApproxDP(3, 1e-4)) as session:
        with pytest.raises(InvalidParameter, match=r"(?s)unit.*single rows"):
            training(session=session, unit=ids, rows=1)
        run(training(session=session, bits=None))
        assert session.spent == BUDGET


# Checkpoints


def test_a_run_goes_on_after_a_crash_anywhere_and_repeats_no_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels: list[tuple[int, ...]] = []
    plain = NoiseKey.stream

    def noted(self: NoiseKey, *label: int) -> KeyedBits:
        labels.append(label)
        return plain(self, *label)

    monkeypatch.setattr(NoiseKey, "stream", noted)
    for place, name in enumerate(("_begin", "_next_batch", "step", "_finish", "save")):
        options: dict[str, Any] = {"checkpoint": tmp_path / f"{place}.pt", "spare": 3, "steps": 6}
        plain_part, calls, crashes, done = getattr(learning.PrivateTraining, name), 0, 0, 0
        labels.clear()

        def cut(self: Any, *rest: Any, part: Any = plain_part) -> Any:
            nonlocal calls
            calls += 1
            if calls in {3, 6}:
                raise KeyboardInterrupt
            return part(self, *rest)

        with monkeypatch.context() as patch:
            patch.setattr(learning.PrivateTraining, name, cut)
            for attempt in range(3):
                own = model(seed=attempt)  # from the second on its weights are the checkpoint's
                private = training(own, **options, resume=attempt > 0, physical=200)
                assert private.steps_done >= done - 1
                try:
                    for *given, target in private:
                        private.step(loss(own(*given), target))
                        done = private.steps_done
                        private.save()
                except KeyboardInterrupt:
                    crashes += 1
                private.close()
        noise = [label for label in labels if label[0] == 16]  # first words of normals
        assert crashes == 2
        assert private.steps_done == 6
        assert len(set(noise)) == len(noise)
        steps = {label[2] for label in noise}
        assert len(steps) <= private.steps_begun <= private.plan.steps == 9
    assert (tmp_path / "0.pt.key").stat().st_mode & 0o777 == 0o600


def test_steps_end_where_the_budget_does(tmp_path: Path) -> None:
    options: dict[str, Any] = {"checkpoint": tmp_path / "a.pt", "steps": 4, "physical": 200}
    assert training(**options | {"checkpoint": tmp_path / "c.pt"}).plan.spare == 1  # of a hundred
    options["spare"] = 0
    private = training(**options)
    for *_given, _target in private:
        break  # begun, and lost
    private.close()
    again = training(**options, resume=True)
    run(again)
    assert (again.steps_done, again.steps_begun) == (3, 4)  # nothing was spare
    with pytest.raises(InvalidParameter, match="no other training at work"):
        training(**options, resume=True)
    with pytest.raises(InvalidParameter, match="resume=True"):
        training(**options)
    again.save()
    again.close()
    with pytest.raises(InvalidParameter, match="this very plan"):
        training(**options | {"batch_size": 20}, resume=True)
    with pytest.raises(InvalidParameter, match="this very plan"):  # rows of another shape
        training(own=nn.Linear(5, 1), data=(torch.ones(200, 5), rows()[1]), **options, resume=True)
    with pytest.raises(InvalidParameter, match="checkpoint"):
        training(checkpoint=tmp_path / "b.pt", resume=True)
    with pytest.raises(InvalidParameter, match="resume"):
        training(resume=True)


KILLED = """
import os, signal, sys, torch
from tests.learning.test_private_training import loss, model, training
own = model()
private = training(own, checkpoint=sys.argv[1], steps=6, spare=2, physical=200, bits=None)
for x, y in private:
    if private.steps_begun == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    private.step(loss(own(x), y))
    private.save()
"""


def test_a_killed_process_leaves_what_it_began_charged(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    ended = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert ended.returncode == -signal.SIGKILL
    options = {"checkpoint": path, "steps": 6, "spare": 2, "physical": 200, "bits": None}
    again = training(**options, resume=True)
    assert (again.steps_done, again.steps_begun) == (3, 4)
    run(again)
    assert (again.steps_done, again.steps_begun) == (6, 7)


def test_canaries_go_on_from_a_checkpoint(tmp_path: Path) -> None:
    options: dict[str, Any] = {"checkpoint": tmp_path / "a.pt", "steps": 4, "physical": 400}
    options["canaries"] = learning.dirac(model(), count=9, norm=0.5, bits=SeededBits(2))
    whole = training(**options | {"checkpoint": tmp_path / "b.pt"})
    run(whole)
    first = training(**options)
    for *given, target in first:
        first.step(loss(first.model(*given), target))
        first.save()
        if first.steps_done == 2:
            break
    first.close()
    again = training(**options, resume=True)
    run(again)
    assert again.audit().promised == whole.audit().promised
    seen, before = again._canaries.seen, first._canaries.seen
    assert all(float((seen[name] - before[name]).abs().max()) > 0 for name in seen)
    assert set(seen) == set(whole._canaries.seen)
    again.close()
    others = learning.dirac(model(), count=9, norm=0.5, bits=SeededBits(3))
    with pytest.raises(InvalidParameter, match="canaries"):
        training(**options | {"canaries": others}, resume=True)


def test_copies_of_a_checkpoint_share_no_noise(tmp_path: Path) -> None:
    options: dict[str, Any] = {"steps": 4, "physical": 200, "bits": None}
    first = training(checkpoint=tmp_path / "a.pt", **options)
    for *given, target in first:
        first.step(loss(first.model(*given), target))
        first.save()
        break
    first.close()
    for end in ("", ".begun", ".key"):
        (tmp_path / f"b.pt{end}").write_bytes((tmp_path / f"a.pt{end}").read_bytes())
    keys = set()
    for name in ("a", "b"):
        again = training(checkpoint=tmp_path / f"{name}.pt", resume=True, **options)
        keys.add(again._noise.key.secret)
        assert again._noise.key.secure
        run(again)
        again.close()
    assert len(keys | {first._key.secret}) == 3
    (tmp_path / "b.pt.begun").unlink()
    with pytest.raises(InvalidParameter, match="all its files"):
        training(checkpoint=tmp_path / "b.pt", resume=True, **options)


def test_a_run_begun_without_a_ledger_is_charged_where_it_goes_on_with_one(tmp_path: Path) -> None:
    options: dict[str, Any] = {"checkpoint": tmp_path / "a.pt", "steps": 4, "bits": None}
    first = training(**options)
    for *given, target in first:
        first.step(loss(first.model(*given), target))
        break
    first.close()
    ledger = open_ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open_account("people", ApproxDP(3, 1e-4), {})
    for _ in range(2):  # the second time it is reserved already
        again = training(**options, resume=True, ledger=ledger, account="people")
        next(iter(again))
        again.close()
        found = ledger.spent("people")
        assert isinstance(found, ApproxDP)
        assert float(found.epsilon) == 2
    ledger.close()


# Audits of a run by its canaries


def wide() -> Any:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 300), nn.Tanh(), nn.Linear(300, 1))


def audited(*, everybody: bool = True) -> Any:
    """An audit of 30 steps for an epsilon of 0.5, of 1,200 canaries in the first layer."""
    own, places = wide(), np.arange(1200)
    canaries = learning.dirac(own, count=1200, coordinates=places, bits=SeededBits(5))
    options: dict[str, Any] = {"canaries": canaries, "steps": 30, "budget": ApproxDP(0.5, 1e-5)}
    options["batch_size"] = 200 if everybody else 10
    if everybody:
        options["sampling"] = learning.FullBatch()
    x, y = rows()
    # Small gradients that stay small, as they hide little.
    options |= {"optimizer": torch.optim.SGD(own.parameters(), lr=1e-9)}
    private = training(own, (x * 1e-3, y), **options)
    run(private)
    return private.audit(confidence=1 - 1e-6)


def no_noise_on_one_layer(patch: pytest.MonkeyPatch) -> None:
    def silent(sums: Any, **options: Any) -> Any:
        exact = sums["0.weight"].clone()
        return add_gaussian(sums, **options) | {"0.weight": exact}

    patch.setattr("unacorda.learning.noise.steps.add_gaussian", silent)


def a_tenth_of_the_noise(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        "unacorda.learning.noise.steps.add_gaussian",
        lambda sums, *, scale, **options: add_gaussian(sums, scale=scale / 10, **options),
    )


def gradients_beyond_the_bound(patch: pytest.MonkeyPatch) -> None:
    plain = learning.GradientCanaries.added_to

    def added(self: Any, gradients: Any, members: Any) -> Any:
        found = plain(self, gradients, members)
        return [g + 10 * (f - g) for f, g in zip(found, gradients, strict=True)]

    patch.setattr(learning.GradientCanaries, "added_to", added)


def everybody_in_every_step(patch: pytest.MonkeyPatch) -> None:
    plain = learning.GradientCanaries.taking_part
    patch.setattr(
        learning.GradientCanaries, "taking_part", lambda self, *, rate, bits: plain(self, bits=bits)
    )


@pytest.mark.statistical
@pytest.mark.parametrize("reused", [False, True])
def test_an_audit_finds_coins_that_are_used_in_every_step(
    reused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bound above the truth has a chance of 1e-6."""
    plain, coins = NoiseKey.stream, (_COINS, _CHUNKS + 2)

    def same(self: NoiseKey, *labels: int) -> KeyedBits:
        return plain(self, labels[0], 0) if labels[0] in coins else plain(self, *labels)

    if reused:
        monkeypatch.setattr(NoiseKey, "stream", same)
    own = nn.Linear(12_000, 1)
    x, y = torch.zeros(20, 12_000), torch.zeros(20, 1)
    private = training(
        own,
        (x, y),
        optimizer=torch.optim.SGD(own.parameters(), lr=1e-9),
        canaries=learning.dirac(own, count=12_000, bits=SeededBits(5)),
        budget=ApproxDP(1, 1e-5),
        units=400,
        batch_size=20,
        steps=100,
    )
    run(private)
    assert private.audit(confidence=1 - 1e-6).contradicts == reused


@pytest.mark.statistical
def test_a_run_is_audited_by_its_canaries() -> None:
    # A bound above the truth has a chance of 1e-6.
    for everybody in (True, False):
        found = audited(everybody=everybody)
        assert found.found <= found.promised <= 0.5
        assert not found.contradicts


@pytest.mark.statistical
@pytest.mark.parametrize(
    "fault",
    [
        no_noise_on_one_layer,
        a_tenth_of_the_noise,
        gradients_beyond_the_bound,
        everybody_in_every_step,
    ],
    ids=lambda fault: fault.__name__,
)
def test_audits_find_planted_faults(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    everybody = fault is not everybody_in_every_step
    assert audited(everybody=everybody).contradicts


def test_canaries_take_part_as_units_do() -> None:
    own = wide()
    long = learning.scattered(own, count=10, norm=2.0, bits=SeededBits(5))
    with pytest.raises(InvalidParameter, match=r"canaries.*norm"):
        training(own, canaries=long)
    short = learning.scattered(own, count=10, norm=1.0, bits=SeededBits(5))
    with pytest.raises(InvalidParameter, match="sampling"):
        training(own, canaries=short, sampling=learning.AllocatedSteps(), steps=5)
    with pytest.raises(RuntimeError, match="canaries"):
        training().audit()
