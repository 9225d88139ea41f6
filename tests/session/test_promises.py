"""Sessions keep what they promise, and the tests of that find faults that are planted."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.session.promises import PROMISES
from tests.support.planting import plant
from tests.support.seams import (
    AccountSplits,
    AdditiveNoise,
    Admission,
    Charge,
    Clamp,
    KeyRule,
    Ledger,
    SubAccount,
    bound_rows,
    charge,
    check_admitted,
    entry_digest,
    event_of,
    execute,
    hits_of,
    rows_of_part,
    salt_from,
    sql_of,
)

import unacorda

Patch = pytest.MonkeyPatch


@pytest.mark.parametrize("promise", PROMISES)
def test_it_is_kept(promise: str) -> None:
    PROMISES[promise]()


# ---- the order and the charge --------------------------------------------------------------------


def _read_first(patch: Patch) -> None:
    right = Admission.admit

    def wrong(self: Admission, query: Any, **named: Any) -> Any:
        admitted = right(self, query, **named)
        self.engine.run(admitted)
        return admitted

    patch.setattr(Admission, "admit", wrong)


def _committed_at_once(patch: Patch) -> None:
    reserve, commit = Ledger.reserve, Ledger.commit

    def wrong(self: Ledger, *given: Any, **named: Any) -> Any:
        reservation = reserve(self, *given, **named)
        self.commit(reservation)
        patch.setattr(Ledger, "commit", lambda *_, **__: None)
        return reservation

    patch.setattr(Ledger, "reserve", wrong)
    patch.setattr(Ledger, "commit", commit)


def _never_committed(patch: Patch) -> None:
    patch.setattr(Ledger, "commit", lambda *_, **__: None)


def _given_back_after_a_crash(patch: Patch) -> None:
    reserve, reserved = Ledger.reserve, []

    def remember(self: Ledger, *given: Any, **named: Any) -> Any:
        reserved.append((self, reserve(self, *given, **named)))
        return reserved[-1][1]

    def wrong(*given: Any, **named: Any) -> Any:
        try:
            return execute(*given, **named)
        except BaseException:
            ledger, reservation = reserved.pop()
            ledger.void(reservation)
            raise

    patch.setattr(Ledger, "reserve", remember)
    plant(patch, execute, wrong)


def _reserved_for_nothing(patch: Patch) -> None:
    right = Ledger.reserve

    def wrong(self: Ledger, dataset: str, charge: Charge, **named: Any) -> Any:
        nothing = dataclasses.replace(charge, cost=unacorda.PureDP(0))
        return right(self, dataset, nothing, **named)

    patch.setattr(Ledger, "reserve", wrong)


def _whatever_is_left(patch: Patch) -> None:
    plant(patch, check_admitted, lambda *_, **__: None)
    patch.setattr("unacorda.accounting.filters.Filter.spend", lambda self, _: self, raising=False)


def _half_of_the_charge(patch: Patch) -> None:
    def wrong(event: Any, request: Any, account: Any) -> Any:
        whole = charge(event, request, account)
        assert isinstance(whole, unacorda.PureDP)
        return unacorda.PureDP(whole.epsilon / 2)

    plant(patch, charge, wrong)


def _the_first_of_several_noises(patch: Patch) -> None:
    def wrong(allocations: Any) -> Any:
        return next(iter(allocations[0].noises.values())).event

    plant(patch, event_of, wrong)


def _the_whole_alone(patch: Patch) -> None:
    def wrong(self: SubAccount, dataset: str, charge: Charge) -> Any:
        return self._ledger.reserve(dataset, charge)

    patch.setattr(SubAccount, "reserve", wrong)


def _parts_for_nothing(patch: Patch) -> None:
    patch.setattr(AccountSplits, "due", lambda self, part, charge: unacorda.PureDP(0))


def _everybody_in_every_part(patch: Patch) -> None:
    def wrong(text: str, rows: Any, step: Any, *_: Any) -> str:
        return f"""SELECT * FROM ({text}) WHERE "{step.column.name}" = '{step.key}'"""

    plant(patch, rows_of_part, wrong)


def _digests_as_they_stand(patch: Patch) -> None:
    plant(patch, entry_digest, lambda entry: entry.digest)


# ---- noise ---------------------------------------------------------------------------------------


def _noise(patch: Patch, wrong: Callable[[Any, list[Any], list[Any]], list[Any]]) -> None:
    """wrong: what is released of exact numbers and right, noisy ones."""
    release, doubles = AdditiveNoise.release, AdditiveNoise.doubles

    def released(self: AdditiveNoise, values: Any, *, bits: Any) -> Any:
        return wrong(self, list(values), list(release(self, values, bits=bits)))

    def in_doubles(self: AdditiveNoise, values: Any, *, bits: Any) -> Any:
        noisy = doubles(self, values, bits=bits).tolist()
        return np.array([float(one) for one in wrong(self, list(values), noisy)])

    patch.setattr(AdditiveNoise, "release", released)
    patch.setattr(AdditiveNoise, "doubles", in_doubles)


def _absolute(noise: AdditiveNoise, exact: list[Any]) -> list[Any]:
    return [x * Fraction(2) ** noise.unit_log2 for x in exact]


def _no_noise(patch: Patch) -> None:
    _noise(patch, lambda self, exact, _: _absolute(self, exact))


def _half_of_the_noise(patch: Patch) -> None:
    def wrong(self: AdditiveNoise, exact: list[Any], noisy: list[Any]) -> list[Any]:
        true = _absolute(self, exact)
        return [(Fraction(x) + Fraction(y)) / 2 for x, y in zip(true, noisy, strict=True)]

    _noise(patch, wrong)


def _noise_that_looks_at_the_data(patch: Patch) -> None:
    def wrong(self: AdditiveNoise, exact: list[Any], noisy: list[Any]) -> list[Any]:
        true = _absolute(self, exact)
        return [
            x + (Fraction(y) - x) * (2 if x > 50 else 1) for x, y in zip(true, noisy, strict=True)
        ]

    _noise(patch, wrong)


def _the_same_noise_again(patch: Patch) -> None:
    for name in ("release", "doubles"):
        right = getattr(AdditiveNoise, name)

        def wrong(self: AdditiveNoise, values: Any, *, bits: Any, right: Any = right) -> Any:
            del bits
            return right(self, values, bits=unacorda.SeededBits(0))

        patch.setattr(AdditiveNoise, name, wrong)


def _one_salt_for_all(patch: Patch) -> None:
    plant(patch, salt_from, lambda bits: 7)


def _seeds_taken_for_chance(patch: Patch) -> None:
    patch.setattr(unacorda.SeededBits, "secure", True)


# ---- rows and keys -------------------------------------------------------------------------------


def _in_the_rows(was: str, becomes: str) -> Callable[[Patch], None]:
    def fault(patch: Patch) -> None:
        def wrong(rows: str, **given: Any) -> str:
            return bound_rows(rows.replace(was, becomes), **given)

        plant(patch, bound_rows, wrong)

    fault.__name__ = f"{was.strip()} becomes {becomes.strip()}"
    return fault


def _nobody_is_bound(patch: Patch) -> None:
    plant(patch, bound_rows, lambda rows, **_: rows)


def _one_row_more(patch: Patch) -> None:
    def wrong(rows: str, *, unit: Any, **given: Any) -> str:
        return bound_rows(rows, unit=unit.with_rows(unit.max_rows + 1), **given)

    plant(patch, bound_rows, wrong)


def _bounds_ten_times_as_wide(patch: Patch) -> None:
    right = Clamp.sql

    def wrong(self: Clamp, value: str) -> str:
        return right(dataclasses.replace(self, lower=10 * self.lower, upper=10 * self.upper), value)

    patch.setattr(Clamp, "sql", wrong)


def _every_key(patch: Patch) -> None:
    patch.setattr(KeyRule, "kept", lambda self, people, *, bits: people > 0)


def _one_key_each(patch: Patch) -> None:
    plant(patch, hits_of, lambda reach: 1)


# ---- who may ask ---------------------------------------------------------------------------------


def _anybodys_question(patch: Patch) -> None:
    patch.setattr(Admission, "check", lambda self, query, *, argument="query": query)


def _anybodys_side(patch: Patch) -> None:
    patch.setattr(Admission, "_owns", lambda self, rows: True)


def _anything_is_run(patch: Patch) -> None:
    plant(patch, sql_of, lambda asked, engine, kind: asked.sql)


FAULTS: list[tuple[Callable[[Patch], None], list[str]]] = [
    (_read_first, ["order"]),
    (_committed_at_once, ["order"]),
    (_never_committed, ["charge"]),
    (_given_back_after_a_crash, ["crash in run"]),
    (_reserved_for_nothing, ["charge", "no_more_than_there_is"]),
    (_whatever_is_left, ["no_more_than_there_is", "analyst"]),
    (_half_of_the_charge, ["charge"]),
    (_the_first_of_several_noises, ["charge", "charge_of_several"]),
    (_the_whole_alone, ["analyst"]),
    (_parts_for_nothing, ["parts"]),
    (_everybody_in_every_part, ["parts"]),
    (_digests_as_they_stand, ["tampering"]),
    (_no_noise, ["noise_is_there", "noise_is_as_wide_as_said"]),
    (_half_of_the_noise, ["noise_is_as_wide_as_said"]),
    (_noise_that_looks_at_the_data, ["noise_is_blind"]),
    (_the_same_noise_again, ["noise_is_there"]),
    (_one_salt_for_all, ["salts"]),
    (_seeds_taken_for_chance, ["seeded"]),
    (_in_the_rows(" IS NOT NULL", " IS NOT NULL OR TRUE"), ["ids"]),
    (_in_the_rows("TRY_CAST", "CAST"), ["no_text_fails"]),
    (_nobody_is_bound, ["limits", "limits_of_a_lookup", "ids_of_a_join"]),
    (_one_row_more, ["limits", "limits_of_a_lookup", "ids_of_a_join"]),
    (_bounds_ten_times_as_wide, ["clamped"]),
    (_every_key, ["private_keys"]),
    (_one_key_each, ["private_keys_of_several"]),
    (_anybodys_question, ["foreign", "foreign_side"]),
    (_anybodys_side, ["foreign_side"]),
    (_anything_is_run, ["nothing_else"]),
]


@pytest.mark.parametrize(
    ("fault", "broken"), FAULTS, ids=[fault.__name__.strip("_") for fault, _ in FAULTS]
)
def test_planted_faults_are_found(
    fault: Callable[[Patch], None], broken: list[str], monkeypatch: Patch
) -> None:
    fault(monkeypatch)
    for promise in broken:
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            PROMISES[promise]()
