"""The corpus of questions to the accountant: what it answers does not leave what it answered."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import time

import pytest
from tests.accounting import golden_intervals as golden
from tests.accounting.corpus import SEEDS, questions
from tests.support.cases import in_subtests

LOOSER = 1e-3
"""An upper end may rise by this, absolutely or relative to what it was."""

KINDS = sorted({question.kind for question in questions(SEEDS[0])})


def _of_kind(seed: int, kind: str) -> list[golden.Answered]:
    """The quickest first."""
    found = [one for one in golden.answered(seed) if one.question.kind == kind]
    return sorted(found, key=lambda one: one.seconds)


def _check(one: golden.Answered) -> None:
    now, before = golden.ask(one.question), one.interval
    assert now.lower <= before.upper, "above what was proved before"
    assert now.upper >= before.lower, "below what was proved before"
    assert now.upper <= before.upper + LOOSER * max(1.0, before.upper)


QUICKEST = {kind: _of_kind(SEEDS[0], kind)[0] for kind in KINDS}
QUICK = [kind for kind, one in QUICKEST.items() if one.seconds <= 0.3]
"""Kinds whose quickest question is asked by default."""


@in_subtests("kind", QUICK)
def test_the_quickest_question_of_each_kind(kind: str) -> None:
    _check(QUICKEST[kind])


@pytest.mark.long
@in_subtests("kind", [kind for kind in KINDS if kind not in QUICK])
def test_the_quickest_question_of_each_slow_kind(kind: str) -> None:
    _check(QUICKEST[kind])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_question(kind: str, seed: int, subtests: pytest.Subtests) -> None:
    known = _of_kind(seed, kind)
    for number, one in enumerate(known):
        with subtests.test(number=number):
            start = time.process_time()
            _check(one)
            # No speed is meant: what takes so much longer does not end for a user.
            assert time.process_time() - start <= max(10.0, 5 * known[-1].seconds)
