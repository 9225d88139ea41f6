"""Questions answer, and are refused, as they were before: digit for digit, with seeded noise.

A change of a file of answers is a change of what users get, and has a line in the changelog.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.session.golden import (
    ANSWERED,
    QUESTIONS,
    REFUSALS,
    REFUSED,
    opened,
    refusal,
    told,
)

from unacorda import ApproxDP, PureDP, Session

ANSWERS: dict[str, Any] = json.loads(ANSWERED.read_text())
EXPECTED: dict[str, Any] = json.loads(REFUSED.read_text())


def test_the_files_hold_every_question_and_refusal() -> None:
    assert list(ANSWERS) == QUESTIONS
    assert list(EXPECTED) == list(REFUSALS)
    assert len(QUESTIONS) >= 60
    assert len(REFUSALS) >= 150


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_answers_as_before(name: str) -> None:
    assert json.loads(json.dumps(told(name))) == ANSWERS[name]


@pytest.fixture(scope="module")
def sessions() -> Iterator[tuple[Session, Session]]:
    with opened(PureDP(20)) as pure, opened(ApproxDP(20, "1e-2")) as approximate:
        yield pure, approximate


def test_each_refusal_names_what_it_named_before(sessions: tuple[Session, Session]) -> None:
    found = {name: refusal(name, sessions=sessions) for name in REFUSALS}
    assert found == EXPECTED
    assert sessions[0].spent == PureDP(0)
    assert sessions[1].spent == ApproxDP(0, 0)
