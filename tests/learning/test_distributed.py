"""Training over several processes: the weights of one process, noise once, no rank parts."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch", reason="needs PyTorch, the extra `learning`")
if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
    pytest.skip("needs gloo", allow_module_level=True)

from tests.learning.ranks import Team  # noqa: E402  # needs torch

from unacorda import ApproxDP, SeededBits  # noqa: E402
from unacorda.errors import InvalidParameter  # noqa: E402
from unacorda.learning import (  # noqa: E402
    Banded,
    Buffered,
    FollowedQuantile,
    OrderedBatches,
    PoissonSampling,
)
from unacorda.learning.batches import chunks_of  # noqa: E402
from unacorda.learning.distributed import Ranks  # noqa: E402
from unacorda.learning.noise.gaussian import add_gaussian  # noqa: E402
from unacorda.learning.noise.keys import NoiseKey  # noqa: E402
from unacorda.learning.plan import planned  # noqa: E402
from unacorda.ledger import open_ledger  # noqa: E402
from unacorda.privacy.neighbors import AddRemove, ZeroOut  # noqa: E402


@pytest.fixture(scope="module", params=[2, pytest.param(4, marks=pytest.mark.slow)])
def team(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Team]:
    found = Team(request.param, tmp_path_factory.mktemp("ranks"))
    yield found
    found.close()


def agree(found: list[Any]) -> Any:
    """What all ranks have; they hold the same weights, bit for bit."""
    for each in found:
        assert "error" not in each, each
        assert np.array_equal(each["weights"], found[0]["weights"])
        assert (each["done"], each["begun"]) == (found[0]["done"], found[0]["begun"])
    return found[0]["weights"]


# With 16 rows at once there are 4 chunks: those of 2 and of 4 ranks are those of one process.
IDS = np.repeat(np.arange(40), 5)
SETTINGS: dict[str, dict[str, Any]] = {
    "rows": {},
    "units": {"unit": IDS, "rows": 3, "units": 40, "batch_size": 8, "physical": 9},
    "canaries": {"canaries": True},
    "average": {"average": 0.5},
    "correlated": {"noise": Banded(bands=3)},
    "buffers": {
        "noise": Buffered(),
        "sampling": OrderedBatches(),
        "neighbors": ZeroOut,
        "spare": 0,
    },
    "quantile": {"clip": FollowedQuantile(norm=0.3, spent=0.1)},
}

FEW: dict[str, Any] = {"count": 30, "units": 50, "batch_size": 2, "physical": 1, "steps": 20}


@pytest.mark.parametrize("name", SETTINGS)
def test_several_processes_train_as_one(team: Team, name: str) -> None:
    one = team.alone("trained", **SETTINGS[name])
    found = team.run("trained", **SETTINGS[name])
    assert np.array_equal(agree(found), one["weights"])
    assert sum(each["batches"] for each in found) == one["batches"]
    assert min(each["batches"] for each in found) > 0
    if name == "canaries":
        assert np.array_equal(found[0]["seen"], one["seen"])


def test_ranks_with_nothing_to_do_take_part_in_the_step(team: Team) -> None:
    one, found = team.alone("trained", **FEW), team.run("trained", **FEW)
    assert np.array_equal(agree(found), one["weights"])
    assert len(one["steps"]) < 20  # the others hold no unit
    assert one["steps"] == set.union(*(each["steps"] for each in found))
    assert all(each["steps"] < one["steps"] for each in found)  # some have nothing for a rank


@pytest.mark.parametrize("noise", [None, Banded(bands=2)], ids=["independent", "correlated"])
def test_noise_is_added_once(team: Team, noise: Any) -> None:
    # 36,000 weights of one layer: chunks of one tensor belong to different ranks.
    options = {"scale": 0.0, "width": 9000, "steps": 2, "noise": noise}
    one, found = team.alone("trained", **options), team.run("trained", **options)
    assert np.array_equal(agree(found), one["weights"])


def test_noise_of_each_rank_would_be_found(team: Team) -> None:
    options = {"scale": 0.0, "steps": 1}
    one, found = team.alone("trained", **options), team.run("noise_of_each_rank", **options)
    assert not np.array_equal(agree(found), one["weights"])


def test_a_secret_of_each_rank_would_be_found(team: Team) -> None:
    one, found = team.alone("trained"), team.run("secret_of_each_rank")
    assert any("error" in each for each in found) or not np.array_equal(
        agree(found), one["weights"]
    )


def test_a_rank_that_leaves_empty_steps_out_is_found_by_all(team: Team) -> None:
    found = team.run("empty_steps_left_out", **FEW)
    for each in found:
        assert each["error"] == "RuntimeError"
        assert "rank 0 came to 'sums of step" in each["text"]
        assert "rank 1 came to 'step" in each["text"]


DIFFERENT: dict[str, tuple[str, dict[str, Any]]] = {
    "weights": ("model", {"alike": [True, False]}),
    "rates": ("optimizer", {"lr": [0.5, 0.1]}),
    "batches": ("batch_size", {"batch_size": [40, 20]}),
    "bounds": ("clip", {"clip": [1.0, 2.0]}),
    "budgets": ("budget", {"budget": [ApproxDP(2, 1e-5), ApproxDP(1, 1e-5)]}),
    "counts": ("dataset", {"count": [200, 199]}),
    "averages": ("average", {"average": [None, 0.5]}),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_ranks_that_differ_are_refused_on_each_of_them(team: Team, name: str) -> None:
    argument, options = DIFFERENT[name]
    first = {name: values[0] for name, values in options.items()}
    rest = {name: [first[name]] * (team.size - 1) + values[1:] for name, values in options.items()}
    for each in team.run("trained", **rest):
        assert each["error"] == "InvalidParameter"
        assert each["argument"] == argument
        assert f"another on rank {team.size - 1}" in each["text"]


def test_what_one_rank_refuses_ends_all(team: Team) -> None:
    sizes = [40] * (team.size - 1) + [201]
    *rest, last = team.run("trained", batch_size=sizes)
    assert (last["error"], last["argument"]) == ("InvalidParameter", "batch_size")
    for each in rest:
        assert each["error"] == "RuntimeError"
        assert f"rank {team.size - 1} stopped, InvalidParameter: batch_size=201" in each["text"]


def test_what_rank_0_lacks_is_refused(team: Team, tmp_path: Path) -> None:
    paths = [None] + [str(tmp_path / "run.pt")] * (team.size - 1)
    for each in team.run("trained", checkpoint=paths):
        assert (each["error"], each["argument"]) == ("InvalidParameter", "checkpoint")


def test_an_error_in_a_step_of_one_rank_ends_the_training_of_all(team: Team) -> None:
    found = team.run("failing", how="losses")
    for rank, each in enumerate(found):
        assert each["done"] == 1  # nothing of the second step was released
        assert np.array_equal(each["weights"], found[0]["weights"])
        assert each["error"].startswith("InvalidParameter" if rank == 1 else "RuntimeError")
        assert "losses" in each["error"]


def test_a_ledger_is_charged_once_and_secure_noise_is_the_same_on_all(
    team: Team, tmp_path: Path
) -> None:
    path = f"sqlite:///{tmp_path}/budget.db"
    ledger = open_ledger(path)
    ledger.open_account("people", ApproxDP(3, 1e-4), {})
    found = team.run("charged", path=path)
    agree(found)
    assert len({each["secret"] for each in found}) == 1
    spent = ledger.spent("people")
    assert isinstance(spent, ApproxDP)
    assert float(spent.epsilon) == 2
    first, *rest = team.run("charged", path=path)
    assert first["error"] == "BudgetExceeded"
    for each in rest:
        assert each["error"] == "RuntimeError"
        assert "rank 0 stopped, BudgetExceeded" in each["text"]
    ledger.close()


def test_rank_0_holds_the_checkpoint_and_all_go_on_from_it(team: Team, tmp_path: Path) -> None:
    options: dict[str, Any] = {"folder": str(tmp_path), "spare": 1, "average": 0.5}
    agree(team.run("saved", **options))
    team.alone("saved", **options)
    assert torch.load(tmp_path / "several.pt.released", weights_only=True)["record"]["steps"] == 3
    one, found = team.alone("resumed", **options), team.run("resumed", **options)
    assert {each["start"] for each in found} == {2}
    assert (found[0]["done"], found[0]["begun"]) == (6, 7)
    assert np.array_equal(agree(found), one["weights"])
    assert len({each["secret"] for each in found}) == 1
    for rank, each in enumerate(team.run("resumed", **options, steps=5)):
        assert each["error"] == ("RuntimeError" if rank else "InvalidParameter")
        assert "this very plan" in each["text"]


def test_a_group_is_stated_and_models_are_plain(team: Team) -> None:
    for each in team.run("without_group"):
        assert (each["error"], each["argument"]) == ("InvalidParameter", "group")
    for each in team.run("wrapped"):
        assert (each["error"], each["argument"]) == ("InvalidParameter", "model")
        assert "group=" in each["text"]


@pytest.mark.slow
def test_a_rank_that_dies_ends_the_others(tmp_path: Path) -> None:
    team = Team(2, tmp_path)
    alive, dead = team.run("failing", how="death", seconds=5)
    assert dead is None
    assert alive["done"] == 1
    assert alive["error"].startswith("RuntimeError")
    team.close()


# Without processes


def test_a_group_is_a_process_group() -> None:
    for group in ("world", 3):
        with pytest.raises(InvalidParameter, match="process group"):
            Ranks(group)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_chunks_of_noise_of_all_ranks_add_up_to_that_of_one(ranks: int) -> None:
    def sums() -> dict[str, Any]:
        drawn = torch.Generator().manual_seed(1)
        shapes = {"a": (300, 200), "b": (7,), "c": (), "d": (1 << 15,)}
        return {n: torch.randn(s, generator=drawn, dtype=torch.float64) for n, s in shapes.items()}

    named: dict[str, Any] = {"scale": 3.0, "key": NoiseKey(bytes(32), secure=False)}
    named |= {"attempt": 0, "step": 5}
    one = add_gaussian(sums(), **named)
    parts = [add_gaussian(sums(), **named, share=(rank, ranks)) for rank in range(ranks)]
    for name, values in one.items():
        assert torch.equal(sum(part[name] for part in parts), values)
        assert torch.all(sum((part[name] != 0).int() for part in parts) <= 1)
    if ranks > 1:  # 8 chunks in all
        assert all(any(bool((each != 0).any()) for each in part.values()) for part in parts)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_a_unit_more_moves_the_chunks_of_one_rank(ranks: int) -> None:
    plan = planned(
        sampling=PoissonSampling(), budget=ApproxDP(2, 1e-5), neighbors=AddRemove, units=1000,
        population=1000, batch_size=100, epochs=None, steps=5, spare=0, sensitivity=1.0,
        unit="one row", by_unit=False, rows=1, dataset="rows", clip="1.0", physical=32,
    )  # fmt: skip

    def chunks(members: int) -> list[list[Any]]:
        return [
            chunks_of(np.arange(members), plan, SeededBits(4), share=(rank, ranks))
            for rank in range(ranks)
        ]

    for members in (3, 150, 300):  # 300 overflow
        before, after = chunks(members), chunks(members + 1)
        numbers = sorted(number for own in before for number, _ in own)
        assert numbers == list(range(1, len(numbers) + 1))
        held = np.sort(np.concatenate([units for own in before for _, units in own]))
        assert np.array_equal(held, np.arange(members))
        moved = [
            [units.tolist() for _, units in one] != [units.tolist() for _, units in other]
            for one, other in zip(before, after, strict=True)
        ]
        assert sum(moved) == 1
