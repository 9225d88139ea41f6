"""What a session promises, each as a function that fails where the promise is broken.

Budgets are so large that noise rounds to nothing where a number is looked at, and bits are seeded.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from tests.support.seams import (
    AdditiveNoise,
    DuckDB,
    Ledger,
    MemoryStore,
    event_from_json,
    key_rule,
    ledger_of,
)

import unacorda
from unacorda.accounting import epsilon
from unacorda.errors import (
    BudgetExceeded,
    EngineFailed,
    InvalidParameter,
    LedgerMismatch,
    UnacordaError,
)

__all__ = ["PROMISES"]

PLENTY = unacorda.PureDP(10**9)
LOUD = unacorda.PureDP(10**6)

SUM = "SUM(GREATEST(LEAST(x, 16), 0))"
TABLE = pa.table(
    {
        "who": [1, 1, 1, 2, 2, 3, None, None, 4],
        "town": ["a", "b", "a", "a", "b", "c", "a", "b", "c"],
        "x": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
        "note": ["1", "2.5", "nan", "inf", "-1e99", "none", "", None, "1e99"],
    }
)


@contextlib.contextmanager
def session(
    table: Any = TABLE, *, budget: Any = PLENTY, unit: Any = None, **options: Any
) -> Iterator[unacorda.Session]:
    options.setdefault("bits", unacorda.SeededBits(5))
    unit = unit or unacorda.Person("who", max_rows=3)
    with unacorda.Session({"t": table}, unit=unit, budget=budget, **options) as opened:
        yield opened


def rows_in(made: unacorda.Session, text: str, budget: Any = LOUD, **given: Any) -> Any:
    return answers(made.sql(text, budget=budget, **given))


def answers(release: unacorda.Release) -> list[dict[str, Any]]:
    """By row, without errors."""
    ends = ("_se", "_low", "_high")
    return [{k: v for k, v in row.items() if not k.endswith(ends)} for row in release.to_dicts()]


class Read(BaseException):
    """What stands for a crash while rows are read."""


# ---- the order -----------------------------------------------------------------------------------


def order() -> None:
    """Reserved, read, committed, and only then answered."""
    with session() as made, pytest.MonkeyPatch().context() as patch:
        seen = _spied(
            patch,
            (Ledger, "reserve"),
            (DuckDB, "run"),
            (Ledger, "commit"),
            (AdditiveNoise, "release"),
        )
        rows_in(made, "SELECT COUNT(*) AS n FROM t")
    assert seen == ["reserve", "run", "commit", "release"]


def order_of_private_keys() -> None:
    """Keys are found after the charge was reserved."""
    plenty = unacorda.ApproxDP(10**9, 1e-3)
    with session(budget=plenty) as made, pytest.MonkeyPatch().context() as patch:
        seen = _spied(patch, (Ledger, "reserve"), (DuckDB, "find"))
        query = made.table("t").group_by("town", keys=unacorda.private_keys())
        made.evaluate(query.agg(n=unacorda.count()), budget=unacorda.ApproxDP(100, 1e-4))
    assert seen == ["reserve", "find"]


def _spied(patch: pytest.MonkeyPatch, *methods: tuple[type, str]) -> list[str]:
    """The names of methods, in the order in which they will be called."""
    seen: list[str] = []
    for owner, name in methods:
        patch.setattr(owner, name, _spy(getattr(owner, name), seen))
    return seen


def _spy(right: Callable[..., Any], seen: list[str]) -> Callable[..., Any]:
    def spied(*given: Any, **named: Any) -> Any:
        seen.append(right.__name__)
        return right(*given, **named)

    return spied


def _crashing(what: str) -> Callable[[], None]:
    def crash() -> None:
        with session(budget=unacorda.PureDP(10)) as made:
            patch = pytest.MonkeyPatch()
            with patch.context() as patch:
                owner = {"run": DuckDB, "release": AdditiveNoise, "commit": Ledger}[what]

                def fail(*_: Any, **__: Any) -> Any:
                    raise Read

                patch.setattr(owner, what, fail)
                with pytest.raises(Read):
                    rows_in(made, "SELECT COUNT(*) AS n FROM t", unacorda.PureDP(3))
            assert made.spent == unacorda.PureDP(3)

    crash.__doc__ = f"A crash in {what} leaves the charge spent."
    return crash


# ---- what is charged -----------------------------------------------------------------------------


def charge() -> None:
    """The account owes what was asked for, and the event costs no more."""
    with session(budget=unacorda.PureDP(10)) as made:
        release = made.sql(f"SELECT COUNT(*) AS n, {SUM} AS s FROM t", budget=unacorda.PureDP(1))
        assert made.spent == unacorda.PureDP(1)
        assert 0.99 < epsilon(release.event, delta=0) <= 1
        entry = ledger_of(made).entries(made._dataset)[0]
        assert json.loads(entry.charge) == {"guarantee": "PureDP", "epsilon": "1"}
        assert event_from_json(entry.event) == release.event
        assert ledger_of(made).entries(made._dataset)[-1].state == "committed"


def charge_of_several() -> None:
    """Several questions cost what was asked for together."""
    with session(budget=unacorda.PureDP(10)) as made:
        found = made.evaluate(
            ["SELECT COUNT(*) AS n FROM t", f"SELECT {SUM} AS s FROM t"], budget=unacorda.PureDP(1)
        )
        assert 0.99 < epsilon(found[0].event, delta=0) <= 1  # which is that of both
        assert made.spent == unacorda.PureDP(1)


def no_more_than_there_is() -> None:
    """What exceeds the budget is refused before a row is read."""
    with session(budget=unacorda.PureDP(1)) as made:
        rows_in(made, "SELECT COUNT(*) AS n FROM t", unacorda.PureDP(1))
        patch = pytest.MonkeyPatch()
        with patch.context() as patch:
            patch.setattr(DuckDB, "run", lambda *_: pytest.fail("rows were read"))
            with pytest.raises(BudgetExceeded):
                rows_in(made, "SELECT COUNT(*) AS n FROM t", unacorda.PureDP(Fraction(1, 10**9)))


def analyst() -> None:
    """An analyst spends the limit, and the dataset's budget with it."""
    with session(budget=unacorda.PureDP(10)) as made:
        one = made.for_analyst("one", unacorda.PureDP(1))
        rows_in(one, "SELECT COUNT(*) AS n FROM t", unacorda.PureDP(1))
        assert made.spent == unacorda.PureDP(1)
        with pytest.raises(BudgetExceeded):
            rows_in(one, "SELECT COUNT(*) AS n FROM t", unacorda.PureDP(1))


def parts() -> None:
    """Everybody is in as many parts as was said, and the session owes the largest alone."""
    with session(budget=PLENTY) as made:
        split = made.split("town", keys=["a", "b", "c"], max_parts=1, budget=unacorda.PureDP(10**8))
        people = [
            rows_in(split[key], "SELECT COUNT(DISTINCT who) AS n FROM t")[0]["n"] for key in "abc"
        ]
        assert sum(people) == 4
        assert made.spent == LOUD


def tampering() -> None:
    """An entry that was changed is told."""
    with session(budget=unacorda.PureDP(10)) as made:
        for _ in range(2):
            rows_in(made, "SELECT COUNT(*) AS n FROM t", unacorda.PureDP(1))
        store = ledger_of(made)._store
        assert isinstance(store, MemoryStore)
        ledger_of(made).verify(made._dataset)
        entry = store.entries(made._dataset)[0]
        object.__setattr__(entry, "purpose", "another")
        with pytest.raises(LedgerMismatch):
            ledger_of(made).verify(made._dataset)


# ---- noise ---------------------------------------------------------------------------------------


def noise_is_there() -> None:
    """Answers are noisy, and twice the same question is answered with other noise."""
    with session(budget=unacorda.PureDP(10), bits=None) as made:
        text = f"SELECT {SUM} AS s FROM t"
        one, other = (rows_in(made, text, unacorda.PureDP(1))[0]["s"] for _ in range(2))
        assert one != other
        assert one != 30


def noise_is_blind() -> None:
    """The noise, its event and its scale are the same whatever the data."""
    other = TABLE.set_column(2, "x", pa.array([9.0] * 9))
    found = []
    for table in (TABLE, other):
        with session(table, budget=unacorda.PureDP(10)) as made:
            release = made.sql(f"SELECT {SUM} AS s FROM t", budget=unacorda.PureDP(1))
            exact = 30 if table is TABLE else 63
            digest = ledger_of(made).entries(made._dataset)[0].plan_digest
            found.append((release.to_dicts()[0]["s"] - exact, release.event, digest))
    assert found[0] == found[1]


def noise_is_as_wide_as_said() -> None:
    """The mean of 4,000 absolute numbers of Laplace noise is its scale; by chance, 1 in 10^9 not.

    Each deviates from it by the scale, so that 1 in 10 is more than 6 deviations of the mean.
    """
    with session(budget=unacorda.PureDP(10)) as made:
        query = made.table("t").group_by("x", keys={"x": range(100, 4100)})
        release = made.evaluate(query.agg(s=unacorda.sum("x", 0, 10)), budget=unacorda.PureDP(1))
        noise = [abs(row["s"]) for row in answers(release)]
        assert 27 < sum(noise) / len(noise) < 33  # three rows of 10
        assert release.to_dicts()[0]["s_se"] == pytest.approx(30 * 2**0.5)


def salts() -> None:
    """Every question draws a salt of its own, which its entry keeps."""
    with session(bits=None, budget=unacorda.PureDP(10)) as made:
        for _ in range(2):
            rows_in(made, "SELECT COUNT(*) AS n FROM t", unacorda.PureDP(1))
        salts = {entry.salt for entry in ledger_of(made).entries(made._dataset)}
        assert len(salts) == 2


def seeded() -> None:
    """What was drawn with a seed is told from what was not."""
    for bits, wanted in ((None, False), (unacorda.SeededBits(1), True)):
        with session(bits=bits, budget=unacorda.PureDP(10)) as made:
            release = made.sql("SELECT COUNT(*) AS n FROM t", budget=unacorda.PureDP(1))
            assert release.reproducible is wanted
            assert ledger_of(made).entries(made._dataset)[0].reproducible is wanted


# ---- rows ----------------------------------------------------------------------------------------


def ids() -> None:
    """Rows of nobody count nowhere."""
    with session() as made:
        found = rows_in(made, "SELECT COUNT(*) AS n, COUNT(DISTINCT who) AS p FROM t")
        assert found == [{"n": 7, "p": 4}]


def ids_of_a_join() -> None:
    """Nor do they in a join of tables of people."""
    unit = unacorda.Person("who", max_rows=9)
    given = {"t": TABLE, "s": TABLE}
    with unacorda.Session(given, unit=unit, budget=PLENTY, bits=unacorda.SeededBits(5)) as made:
        joined = made.table("t").join(made.table("s"), columns=[], max_rows=(3, 3))
        release = made.evaluate(joined.agg(n=unacorda.count()), budget=LOUD)
        assert answers(release) == [{"n": 9 + 4 + 1 + 1}]
        joined = made.table("t").join(made.table("s"), columns=[], max_rows=(1, 2))
        release = made.evaluate(joined.agg(n=unacorda.count()), budget=LOUD)
        assert answers(release) == [{"n": 2 + 2 + 1 + 1}]


def limits() -> None:
    """A person has no more rows than the limit, over all groups together."""
    with session(unit=unacorda.Person("who", max_rows=1)) as made:
        keys = {"town": ["a", "b", "c"]}
        found = rows_in(made, "SELECT town, COUNT(*) AS n FROM t GROUP BY town", keys=keys)
        assert sum(one["n"] for one in found) == 4


def limits_of_a_lookup() -> None:
    """People are bound before a public table makes several rows of theirs, and after."""
    public = pa.table({"town": ["a", "a", "b", "c"], "big": [1, 2, 3, 4]})
    with session(public={"towns": public}) as made:
        joined = made.table("t").join("towns", on="town")
        query = joined.agg(n=unacorda.count(), p=unacorda.count_people())
        (found,) = answers(made.evaluate(query, budget=LOUD))
        assert found == {"n": 3 + 3 + 1 + 1, "p": 4}


def clamped() -> None:
    """Values count within their bounds, whatever they are."""
    with session() as made:
        query = made.table("t").agg(s=unacorda.sum("note", -1, 2), m=unacorda.mean("note", -1, 2))
        (found,) = answers(made.evaluate(query, budget=LOUD))
        # 1, 2.5, -1e99, 1e99 of people
        assert -3 <= found["s"] <= 8
        assert -1 <= found["m"] <= 2


def no_text_fails() -> None:
    """No text makes a question fail, and a text that is no number is none."""
    with session() as made:
        query = made.table("t").agg(n=unacorda.count("CAST(note AS DOUBLE)"))
        try:
            (found,) = answers(made.evaluate(query, budget=LOUD))
        except EngineFailed:
            pytest.fail("a text made a question fail")
        assert 2 <= found["n"] <= 5  # of "1", "2.5", "nan", "inf", "-1e99", "none" and "1e99"


def every_public_key() -> None:
    """Public keys are answered, with rows or without."""
    with session() as made:
        keys = {"town": ["a", "z"]}
        found = rows_in(made, "SELECT town, COUNT(*) AS n FROM t GROUP BY town", keys=keys)
        assert found == [{"town": "a", "n": 3}, {"town": "z", "n": 0}]


def private_keys() -> None:
    """A key of one person appears with its share of delta at most, and those of many do."""
    many = pa.table({"who": list(range(400)), "town": ["a"] * 399 + ["b"], "x": [1.0] * 400})
    with session(many, budget=unacorda.ApproxDP(100, 1e-3)) as made:
        query = made.table("t").group_by("town", keys=unacorda.private_keys())
        asked = query.agg(n=unacorda.count())
        for _ in range(3):
            found = made.evaluate(asked, budget=unacorda.ApproxDP(2, 1e-9)).to_dicts()
            assert [one["town"] for one in found] == ["a"]


def private_keys_of_several() -> None:
    """Whoever has more keys needs more people behind each."""
    share = unacorda.PureDP(1)
    one, four = (
        key_rule(share, delta=Fraction(1, 10**6), hits=hits, replaced=False) for hits in (1, 4)
    )
    assert four.mechanism.probability(1) * 4 <= Fraction(1, 10**6)
    assert one.mechanism.probability(1) <= Fraction(1, 10**6)
    asked = []
    for groups in (1, 4):
        with session(budget=unacorda.ApproxDP(10, 1e-3)) as made:
            keys = unacorda.private_keys(max_groups=groups)
            query = made.table("t").group_by("town", keys=keys).agg(n=unacorda.count())
            release = made.evaluate(query, budget=unacorda.ApproxDP(1, 1e-6))
            asked.append(str(release.event))
    assert asked[0] != asked[1]


# ---- who may ask ---------------------------------------------------------------------------------


def foreign() -> None:
    """A question of another session is refused before anything is reserved."""
    with session() as made, session(unit=unacorda.Row()) as other:
        query = other.table("t").agg(n=unacorda.count())
        with pytest.raises(InvalidParameter):
            made.evaluate(query, budget=LOUD)
        assert made.spent == unacorda.PureDP(0)


def foreign_side() -> None:
    """So is one that a side of which comes from elsewhere."""
    with session() as made, session() as other:
        with pytest.raises(InvalidParameter):
            made.evaluate(
                made.table("t").union(other.table("t")).agg(n=unacorda.count()), budget=LOUD
            )
        assert made.spent == unacorda.PureDP(0)


def nothing_else() -> None:
    """An engine runs what a session admitted, and nothing that looks like it."""
    with session() as made:
        query = made.table("t").agg(n=unacorda.count())
        admitted = made._admission.admit(query, salt=1)

        class Looks:
            query, engine, sql = admitted.query, admitted.engine, admitted.sql

        for other in (Looks(), admitted.sql, "SELECT 1"):
            with pytest.raises((TypeError, UnacordaError)):
                made._admission.engine.run(other)  # type: ignore[arg-type]


def closed() -> None:
    """A session that was closed answers nothing, and spends nothing."""
    with session() as made:
        query = made.table("t").agg(n=unacorda.count())
    with pytest.raises(UnacordaError):
        made.evaluate(query, budget=LOUD)
    assert not ledger_of(made).entries(made._dataset)


PROMISES: Mapping[str, Callable[[], None]] = {
    check.__name__: check
    for check in (
        order,
        order_of_private_keys,
        charge,
        charge_of_several,
        no_more_than_there_is,
        analyst,
        parts,
        tampering,
        noise_is_there,
        noise_is_blind,
        noise_is_as_wide_as_said,
        salts,
        seeded,
        ids,
        ids_of_a_join,
        limits,
        limits_of_a_lookup,
        clamped,
        no_text_fails,
        every_public_key,
        private_keys,
        private_keys_of_several,
        foreign,
        foreign_side,
        nothing_else,
        closed,
    )
} | {f"crash in {what}": _crashing(what) for what in ("run", "release", "commit")}
