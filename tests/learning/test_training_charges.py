"""What a training or an evaluation costs which account, also after a crash."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch, the extra `learning`")

from unacorda import AddRemove, ApproxDP, ReplaceOne, SeededBits, learning  # noqa: E402
from unacorda.errors import InvalidParameter  # noqa: E402
from unacorda.ledger import open_ledger  # noqa: E402

LIMIT = ApproxDP(100, 1e-3)


def ledger_of(**terms: dict[str, str]) -> Any:
    ledger = open_ledger(None)
    for name, own in terms.items():
        ledger.open_account(name, LIMIT, own)
    return ledger


def training(budget: ApproxDP, **options: Any) -> Any:
    torch.manual_seed(1)
    model = torch.nn.Linear(2, 1)
    settings: dict[str, Any] = {"steps": 3, "bits": SeededBits(1)} | options
    return learning.PrivateTraining(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        (torch.randn(100, 2), torch.randn(100, 1)),
        budget=budget,
        units=100,
        batch_size=20,
        clip=1.0,
        **settings,
    )


def run(private: Any) -> None:
    for x, y in private:
        private.step((private.model(x) - y).square().sum(1))
    private.close()


@pytest.mark.parametrize("other", [{"steps": 30}, {"clip": 2.0}, {"units": 110}])
def test_a_checkpoint_without_weights_goes_on_under_its_own_plan_alone(
    tmp_path: Path, other: Any
) -> None:
    ledger = ledger_of(people={})
    options: dict[str, Any] = {"checkpoint": tmp_path / "a.pt", "ledger": ledger}
    options["account"] = "people"
    run(training(ApproxDP(0.1, 1e-6), **options))
    model = torch.nn.Linear(2, 1)
    settings = options | {"units": 100, "clip": 1.0, "steps": 3} | other
    for budget in (ApproxDP(8, 1e-6), ApproxDP(0.1, 1e-6)):
        with pytest.raises(InvalidParameter, match="very plan"):
            learning.PrivateTraining(
                model,
                torch.optim.SGD(model.parameters(), lr=0.1),
                (torch.randn(100, 2), torch.randn(100, 1)),
                budget=budget,
                batch_size=20,
                resume=True,
                **settings,
            )
    assert ledger.spent("people") == ApproxDP(0.1, 1e-6)


def test_a_training_that_goes_on_in_another_account_is_charged_there(tmp_path: Path) -> None:
    budget, ledger = ApproxDP(1, 1e-6), ledger_of(one={}, other={})
    options: dict[str, Any] = {"checkpoint": tmp_path / "a.pt", "ledger": ledger}
    first = training(budget, account="one", **options)
    for x, y in first:
        first.step((first.model(x) - y).square().sum(1))
        first.save()
        break
    first.close()
    run(training(budget, account="other", resume=True, **options))
    assert ledger.spent("one") == ledger.spent("other") == budget
    namesake = ledger_of(one={})
    run(training(budget, account="one", resume=True, **options | {"ledger": namesake}))
    assert namesake.spent("one") == budget


def test_sub_accounts_protect_what_their_account_does() -> None:
    ledger = ledger_of(people={"unit": "person", "neighbors": str(AddRemove)})
    ledger.open_sub_account("people", "ana", ApproxDP(3, 1e-5))
    own = ledger.scoped(sub_account="ana")
    with pytest.raises(InvalidParameter, match="the person of each row"):
        training(ApproxDP(1, 1e-6), ledger=own, account="people")


@pytest.mark.parametrize(
    ("terms", "options", "expected"),
    [
        ({"unit": "person"}, {}, "the person of each row"),
        ({"unit": "row"}, {"unit": torch.arange(10)}, "protects single rows"),
        ({"neighbors": "ReplaceOne"}, {}, "ReplaceOne, as the account"),
        ({"unit": "row", "neighbors": "ReplaceOne"}, {"neighbors": ReplaceOne}, ""),
        ({"unit": "person"}, {"unit": torch.arange(10)}, ""),
    ],
)
def test_an_evaluation_protects_what_its_account_does(
    terms: dict[str, str], options: Any, expected: str
) -> None:
    ledger, rows = ledger_of(people=terms), (torch.randn(10, 2), torch.zeros(10))

    def evaluated() -> learning.Evaluation:
        account: dict[str, Any] = {"ledger": ledger, "account": "people"}
        model, budget = torch.nn.Linear(2, 1), ApproxDP(1, 1e-6)
        return learning.evaluate(model, rows, learning.hits, budget=budget, **account, **options)

    if expected:
        with pytest.raises(InvalidParameter, match=expected):
            evaluated()
        assert not ledger.entries("people")
    else:
        evaluated()
        assert ledger.spent("people") == ApproxDP(1, 1e-6)


def test_a_training_is_not_copied() -> None:
    with pytest.raises(TypeError, match="equal noise"):
        copy.deepcopy(training(ApproxDP(1, 1e-6)))


def test_a_forked_process_does_not_train_on(monkeypatch: pytest.MonkeyPatch) -> None:
    private = training(ApproxDP(1, 1e-6))
    x, y = next(iter(private))
    monkeypatch.setattr("os.getpid", lambda: 1)
    with pytest.raises(RuntimeError, match="forked"):
        run(private)
    del x, y
