"""`unacorda.Remote` asks a server as a session asks its tables."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import pickle
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tests.server.served import written
from tests.server.test_running import configured, running
from tests.support.cases import in_subtests

import unacorda
from unacorda.errors import InvalidParameter, ServerRefused
from unacorda.privacy.guarantees import Guarantee
from unacorda.server.config import read_config
from unacorda.server.remote import _asked
from unacorda.server.store import opened
from unacorda.server.tokens import make_token
from unacorda.settings import guarantee_of

LITTLE = unacorda.ZCDP("0.001")


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[unacorda.Remote]:
    path = configured(tmp_path_factory.mktemp("served"))
    config = read_config(path)
    with running(path), opened(config.store) as store:
        token = make_token(store, "ana", role="analyst")
        yield unacorda.Remote(config.public_url, token=token)


@pytest.mark.long
def test_it_asks_as_a_session_does(clinic: unacorda.Remote) -> None:
    assert clinic.dataset == "visits"
    assert clinic.tables["visits"]["county"]["fact"]["kind"] == "categories"
    before = clinic.remaining
    query = (
        clinic.table("visits")
        .where(unacorda.col("age") >= 18)
        .group_by("county")
        .agg(n=unacorda.count(), m=unacorda.mean("age", 0, 120, weight=2))
    )
    assert clinic.explain(query, budget=LITTLE)["affordable"] is True
    release = clinic.evaluate(query, budget=LITTLE, purpose="a try")
    assert not release.again
    assert [row["county"] for row in release.rows] == ["A", "B"]
    assert list(release.to_pandas().columns)[:3] == ["county", "n", "n_se"]
    assert release.charge == LITTLE
    assert clinic.remaining == before - LITTLE
    again = clinic.evaluate(query, budget=LITTLE)
    assert again.again
    assert again.text == release.text
    assert clinic.remaining == before - LITTLE
    assert not clinic.sql("SELECT COUNT(*) AS n FROM visits", budget=LITTLE).again
    counted = clinic.table("visits").agg(n=unacorda.count())
    for error in (30, {"n": "30"}):
        assert isinstance(clinic.suggest_budget(counted, error=error), unacorda.ZCDP)


@pytest.mark.parametrize(
    ("budget", "sent"),
    [
        (unacorda.PureDP(Fraction(1, 3)), {"epsilon": "1/3"}),
        (unacorda.ApproxDP("0.5", "1e-6"), {"epsilon": "1/2", "delta": "1/1000000"}),
        (unacorda.ZCDP("0.01"), {"rho": "1/100"}),
        (unacorda.GDP(Fraction(1, 3)), {"mu": "1/3"}),
        (unacorda.GDP(2, delta="1e-9"), {"mu": "2", "delta": "1/1000000000"}),
    ],
)
def test_a_budget_of_each_kind_is_sent_whole(
    budget: Guarantee, sent: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies: list[Any] = []

    def note(_: object, path: str, body: Any = None) -> dict[str, Any]:
        bodies.append(body)
        return {"datasets": ["visits"]}

    monkeypatch.setattr(unacorda.Remote, "_sent", note)
    unacorda.Remote("http://127.0.0.1:1", token="unacorda_a_b").explain("SELECT 1", budget=budget)
    assert bodies[-1]["budget"] == sent
    assert guarantee_of(sent) == budget


@pytest.mark.long
def test_what_the_server_refuses_is_said_in_its_words(clinic: unacorda.Remote) -> None:
    wrong = clinic.table("visits").agg(m=unacorda.mean("nix", 0, 1))
    with pytest.raises(ServerRefused, match="nix") as refused:
        clinic.evaluate(wrong, budget=LITTLE)
    assert (refused.value.kind, refused.value.status) == ("refused", 422)
    with pytest.raises(ServerRefused) as dear:
        clinic.sql("SELECT COUNT(*) AS n FROM visits", budget=unacorda.ZCDP(3))
    assert dear.value.kind == "budget-exceeded"
    with pytest.raises(ServerRefused, match="token") as stranger:
        unacorda.Remote(clinic._url, token="unacorda_a_b")
    assert stranger.value.status == 401
    with pytest.raises(ServerRefused, match="cannot be asked") as nobody:
        unacorda.Remote("http://127.0.0.1:1", token="unacorda_a_b")
    assert nobody.value.kind == "unreachable"
    with pytest.raises(InvalidParameter, match="dataset"):
        unacorda.Remote(clinic._url, token=clinic._token, dataset="labs")


@pytest.mark.long
def test_several_are_asked_together(clinic: unacorda.Remote) -> None:
    counted = clinic.table("visits").agg(n=unacorda.count())
    both: dict[str, Any] = {"n": counted, "m": "SELECT COUNT(*) AS n FROM visits WHERE age > 50"}
    assert set(clinic.explain(both, budget=LITTLE)["questions"]) == {"n", "m"}
    release = clinic.evaluate(both, budget=LITTLE)
    assert list(release.releases) == ["n", "m"]
    assert isinstance(release.releases["m"].rows[0]["n"], int)
    assert release.charge == LITTLE
    assert repr(release) == "RemoteRelease(2 releases, rho 0.001)"
    with pytest.raises(InvalidParameter, match="releases"):
        print(release.rows)
    assert clinic.verify(release)["holds"] is True
    read = clinic.read_json('{"table": "visits", "aggregates": {"n": {"count": {}}}}')
    assert clinic.evaluate(read, budget=LITTLE).rows


@in_subtests("url", ["http://ask.example", "ftp://x", "ask.example", "file:///etc/passwd", ""])
def test_no_token_leaves_in_the_clear(url: str) -> None:
    with pytest.raises(InvalidParameter, match="url"):
        unacorda.Remote(url, token="unacorda_a_b")


@pytest.mark.long
def test_a_token_is_not_copied(clinic: unacorda.Remote) -> None:
    assert clinic._token not in repr(clinic)
    with pytest.raises(TypeError, match="token"):
        pickle.dumps(clinic)


def test_questions_are_those_that_a_session_would_build(tmp_path: Path) -> None:
    """Built without a schema, and read with one."""
    frame = pd.read_csv(written(tmp_path).with_name("visits.csv"))
    unit = unacorda.Person("patient", max_rows=4)
    with unacorda.Session({"visits": frame}, unit=unit, budget=unacorda.PureDP(1)) as session:
        far: Any = unacorda.Remote.table(object.__new__(unacorda.Remote), "visits")
        near: Any = session.table("visits")

        def asked(begun: Any) -> Any:
            query = begun.derive(old="age / 2").where("old > 3").union(begun.derive(old="age"))
            grouped = query.group_by("county", keys=["A", "B"])
            ages = unacorda.quantiles("old", ["1/4", 0.5], 0, 120)
            return grouped.agg(n=unacorda.count(), q=ages)

        assert session.read_json(_asked(asked(far))["question"]) == asked(near)
        private = far.group_by("county", keys=unacorda.private_keys(delta="1e-9"))
        read = session.read_json(_asked(private.agg(n=unacorda.count()))["question"])
        assert read.private == unacorda.private_keys(delta="1e-9")
