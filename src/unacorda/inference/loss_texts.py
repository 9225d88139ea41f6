"""Scores and curvatures of losses as SQL, in the row-wise language of sessions.

A loss of one's own is fit from tables if it says them too: methods `score_sql(prediction, target)`
and `curvature_sql(prediction, target)`, of SQL text of both, that give SQL text.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from unacorda.inference.losses import (
    Check,
    Huber,
    LogCosh,
    Logistic,
    Loss,
    Poisson,
    SmoothedHuber,
    Tukey,
)

__all__ = [
    "EXPONENTIAL",
    "Text",
    "curvature_text",
    "cut_text",
    "exponential",
    "number",
    "score_text",
]

Text: TypeAlias = Callable[[str, str], str]
"""SQL of a row's number, from that of its prediction and target; empty where there is none."""

EXPONENTIAL = "exp_p"
"""The column that holds e^prediction: see `exponential`."""

_STEEPEST = 700
"""Beyond it exponentials would leave the range of doubles; e^-700 is nothing beside 1."""

_FARTHEST = 300
"""Predictions are cut here where e^prediction is taken."""
_QUARTERED = 6
_TERMS = 9


def number(value: float) -> str:
    """A number as SQL, in brackets, which is read back to the same bits.

    >>> number(-0.5), number(1e-7)
    ('(-0.5)', '(1e-07)')
    """
    return f"({float(value)!r})"


def cut_text(text: str, least: float, most: float) -> str:
    """SQL of a number cut to a range.

    >>> cut_text("x", -1, 1)
    'greatest(least(x, (1.0)), (-1.0))'
    """
    return f"greatest(least({text}, {number(most)}), {number(least)})"


def exponential(prediction: str) -> list[dict[str, str]]:
    """Columns, one mapping after the other, that end in e^prediction, to 12 digits or more.

    It is made of products and sums alone, which every engine rounds alike, as it does not their
    EXP: of y = prediction / 4^6 a polynomial, whose error is below 10^-16, squared twelve times.
    """
    terms = [number(1 / math.factorial(power)) for power in range(_TERMS)]
    text = terms[-1]
    for term in reversed(terms[:-1]):
        text = f"({term} + exp_y * {text})"
    cut = cut_text(prediction, -_FARTHEST, _FARTHEST)
    columns = [{"exp_y": f"{cut} / {number(4**_QUARTERED)}"}, {"exp_0": text}]
    for step in range(1, _QUARTERED + 1):
        before = f"exp_{step - 1}"
        name = EXPONENTIAL if step == _QUARTERED else f"exp_{step}"
        columns.append({name: f"({before} * {before}) * ({before} * {before})"})
    return columns


def score_text(loss: Loss) -> Text:
    """SQL of the derivative of a loss by the prediction."""
    match loss:
        case Huber(c):
            return lambda p, y: cut_text(f"{p} - {y}", -c, c)
        case SmoothedHuber(c):
            return lambda p, y: f"{number(c)} * {_bend(p, y, c)} / sqrt({_smooth(p, y, c)})"
        case LogCosh(c):
            return lambda p, y: f"{number(c)} * {_tanh(p, y, c)}"
        case Tukey(c):
            return lambda p, y: (
                f"{number(c)} * {_near(p, y, c)} * {_rest(p, y, c)} * {_rest(p, y, c)}"
            )
        case Logistic():
            return lambda _, y: f"{_PROBABILITY} - {cut_text(y, 0, 1)}"
        case Poisson(most, steady) if steady < most:
            weight = f"{number(steady)} / greatest({_mean(most)}, {number(steady)})"
            return lambda _, y: f"({_mean(most)} - {cut_text(y, 0, most)}) * {weight}"
        case Poisson(most):
            return lambda _, y: f"{_mean(most)} - {cut_text(y, 0, most)}"
        case Check(tau=tau, reach=c):
            return lambda p, y: (
                f"0.5 + {_near(p, y, c)} * (15 - {_square(p, y, c)} * (10 - 3 * "
                f"{_square(p, y, c)})) / 16 - {number(tau)}"
            )
        case _:
            return getattr(loss, "score_sql", _none)


def curvature_text(loss: Loss) -> Text:
    """SQL of the second derivative of a loss by the prediction."""
    match loss:
        case Huber(c):
            return lambda p, y: f"CASE WHEN abs({p} - {y}) <= {number(c)} THEN 1 ELSE 0 END"
        case SmoothedHuber(c):
            return lambda p, y: f"1 / ({_smooth(p, y, c)} * sqrt({_smooth(p, y, c)}))"
        case LogCosh(c):
            return lambda p, y: f"1 - {_tanh(p, y, c)} * {_tanh(p, y, c)}"
        case Tukey(c):
            return lambda p, y: f"{_rest(p, y, c)} * (1 - 5 * {_near(p, y, c)} * {_near(p, y, c)})"
        case Logistic():
            return lambda *_: f"{_PROBABILITY} / (1 + {EXPONENTIAL})"
        case Poisson(curvature_bound=bound):
            return lambda *_: _mean(bound)
        case Check(reach=c):
            return lambda p, y: f"{number(15 / (16 * c))} * ({_rest(p, y, c)} * {_rest(p, y, c)})"
        case _:
            return getattr(loss, "curvature_sql", _none)


def _none(prediction: str, target: str) -> str:
    del prediction, target
    return ""


def _bend(p: str, y: str, c: float) -> str:
    """The residual in units of c, its sign that of the score."""
    return cut_text(f"({p} - {y}) / {number(c)}", -1e60, 1e60)


def _smooth(p: str, y: str, c: float) -> str:
    return f"(1 + {_bend(p, y, c)} * {_bend(p, y, c)})"


def _tanh(p: str, y: str, c: float) -> str:
    twice = cut_text(f"({p} - {y}) / {number(c / 2)}", -_STEEPEST, _STEEPEST)
    return f"(1 - 2 / (1 + exp({twice})))"


def _near(p: str, y: str, c: float) -> str:
    return cut_text(f"({p} - {y}) / {number(c)}", -1, 1)


def _square(p: str, y: str, c: float) -> str:
    return f"({_near(p, y, c)} * {_near(p, y, c)})"


def _rest(p: str, y: str, c: float) -> str:
    return f"((1 - {_near(p, y, c)}) * (1 + {_near(p, y, c)}))"


_PROBABILITY = f"({EXPONENTIAL} / (1 + {EXPONENTIAL}))"


def _mean(most: float) -> str:
    return f"least({EXPONENTIAL}, {number(most)})"
