r"""Scores of candidates, and bounds on the loss of a choice.

Scores are exact numbers, integers, floats or Fractions, without rounding to a grid. So the
sensitivity of a mechanism is that of the scores as they were computed. Errors depend only on shape
and dtype.

Bounds on the loss of a choice do not depend on the data: they hold for every list of scores of the
given length. For noisy maxima the worst scores are known: all others are behind by the bound. For
the tree the worst scores are computed from the last question back to the first. Proofs in
docs/proofs/noisy_max.md, sections 4 and 5; everything is rounded up.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray

from unacorda import checks, elements
from unacorda.balls import BITS, Ball, ball, float_up, precision
from unacorda.checks import Number
from unacorda.elements import Exact
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.noise.error_bounds import confident
from unacorda.numerics import boundary

Real: TypeAlias = float | Fraction
Noise: TypeAlias = Literal["gumbel", "exponential"]
Floats: TypeAlias = NDArray[np.float64]

_FACTOR_REACH: Final = Fraction(1 << 500)
_LARGEST_FLOAT: Final = float(np.finfo(np.float64).max)

_COARSE: Final = 512  # cells of the first table of a walk, and of the one that counts
_FINE: Final = 2048
_DEEPEST: Final = 62
_LEAST_MISS: Final = Fraction(1, 10**200)
_MORE: Final = 1 + 2.0**-40  # above the errors of erfc and of the sums of a table


def check_selection(*, epsilon: Real, sensitivity: Real, monotone: bool, count: int = 1) -> None:
    """Refuse numbers of which no selection can be made."""
    for name, value in (("epsilon", epsilon), ("sensitivity", sensitivity)):
        checks.demand(checks.exact(name, value) > 0, name, value, expected="a number above 0")
    checks.boolean(monotone=monotone)
    checks.positive_integer(count=count)
    factor = factor_of(epsilon, sensitivity, monotone=monotone, count=count)
    if not 1 / _FACTOR_REACH <= factor <= _FACTOR_REACH:
        raise InvalidParameter(
            "sensitivity",
            sensitivity,
            expected="epsilon / sensitivity between 2^-499 and 2^499",
        )


def factor_of(epsilon: Real, sensitivity: Real, *, monotone: bool, count: int = 1) -> Fraction:
    """The exponent per unit of score, exactly: epsilon / (2 count sensitivity).

    It is twice that for monotone scores. Its inverse is the scale of the noise on a score.
    """
    moves = checks.exact("sensitivity", sensitivity) * (1 if monotone else 2)
    return checks.exact("epsilon", epsilon) / (count * moves)


def score_rows(scores: ArrayLike | Sequence[Fraction], *, dimensions: int) -> NDArray[Any]:
    """The scores as a matrix of int64, uint64, float64 or exact Python numbers.

    NaN counts as 0, infinities as the largest float.
    """
    expected = "integers, floats of at most 64 bits or Fractions"
    array = elements.numbers("scores", scores, dimensions=dimensions, expected=expected)
    if array.ndim != dimensions or array.shape[-1] == 0:
        raise InvalidParameter(
            "scores", array.shape, expected=f"{dimensions} dimension(s) and at least one candidate"
        )
    matrix = array.reshape(-1, array.shape[-1])
    kind, width = matrix.dtype.kind, matrix.dtype.itemsize
    if kind in "biu":
        return np.ascontiguousarray(matrix, np.uint64 if (kind, width) == ("u", 8) else np.int64)
    if kind == "f":
        floats = np.ascontiguousarray(matrix, np.float64)
        ends = (floats.min(initial=0.0), floats.max(initial=0.0))  # NaN where there is one
        if math.isfinite(ends[0]) and math.isfinite(ends[1]):
            return floats
        return np.nan_to_num(floats, nan=0.0, posinf=_LARGEST_FLOAT, neginf=-_LARGEST_FLOAT)
    exact = np.empty(matrix.size, dtype=object)
    exact[:] = [_exact(score) for score in matrix.reshape(-1).tolist()]
    return exact.reshape(matrix.shape)


def one_row(scores: ArrayLike | Sequence[Fraction], *, least: int = 1) -> NDArray[Any]:
    """The scores of one choice, in one dimension; `least`: how many there must be."""
    row: NDArray[Any] = score_rows(scores, dimensions=1)[0]
    checks.demand(row.size >= least, "scores", row.shape, expected=f"at least {least} candidates")
    return row


def exponents(scores: NDArray[Any], reference: NDArray[Any], *, factor: Fraction) -> Floats:
    """Each factor (score - reference), to within 2^-51 relative; beyond the range infinite.

    reference: of the dtype of the scores, in a shape that fits them.
    """
    with np.errstate(over="ignore", under="ignore"):
        if scores.dtype.kind in "iu":
            # The difference of two 64-bit integers fits in uint64, whatever their signs.
            larger, smaller = np.maximum(scores, reference), np.minimum(scores, reference)
            distance = np.subtract(larger.view(np.uint64), smaller.view(np.uint64))
            difference = distance.astype(np.float64)
            np.negative(difference, out=difference, where=scores < reference)
        elif scores.dtype.kind == "f":
            difference = np.subtract(scores, reference)
        else:
            difference = np.frompyfunc(elements.nearest_float, 1, 1)(scores - reference).astype(
                np.float64
            )
        products: Floats = np.multiply(difference, float(factor), out=difference)
    return products


def exact_score(score: Any) -> Fraction:
    """One entry of a row as the exact number it is."""
    return Fraction(score.item() if isinstance(score, np.generic) else score)


def _exact(score: Exact) -> int | Fraction:
    if not isinstance(score, float):
        return score
    if math.isnan(score):
        return 0
    return Fraction(max(-_LARGEST_FLOAT, min(score, _LARGEST_FLOAT)))


def noisy_max_loss(
    noise: Noise, scale: Fraction, *, confidence: Number, candidates: int, count: int = 1
) -> float:
    """The largest loss of the worst of `count` released scores below the `count`-th best one.

    It holds with probability `confidence` or more. For one candidate it is tight.
    """
    miss = 1 - confident(confidence)
    others = checks.positive_integer(candidates=candidates) - count
    checks.demand(others >= 0, "candidates", candidates, expected=f"at least {count} of them")
    if others == 0:
        return 0.0
    if count == 1 and Fraction(others, candidates) <= miss:
        return 0.0  # what equal candidates do
    return _least(lambda away: _missed(noise, away, others, count), miss, scale, others)


def odds_loss(scale: Fraction, *, confidence: Number, odds: Fraction) -> float:
    """The same for one draw of the exponential mechanism.

    odds: the weight of all candidates but the best, over the weight of the best.
    """
    miss = 1 - confident(confidence)
    if odds / (1 + odds) <= miss:
        return 0.0
    return _least(lambda away: _against(ball(odds) * (-away).exp()), miss, scale, odds)


def walk_loss(
    sigma: float,
    rounding: Fraction,
    *,
    confidence: Number,
    levels: int,
    branching: int,
    candidates: int,
) -> float:
    """The same for a walk down a tree.

    sigma: of the noise on a contrast; rounding: by how much the grid can lengthen one wrong turn.
    """
    miss = 1 - confident(confidence)
    checks.demand(miss >= _LEAST_MISS, "confidence", confidence, expected="at most 1 - 10^-200")
    checks.demand(levels <= _DEEPEST, "candidates", candidates, expected=f"at most 2^{_DEEPEST}")
    if levels == 0:
        return 0.0
    # The noise on the difference of two children, see the proof.
    spread = ball(sigma) * ball(2 * branching).sqrt()
    turns = _turns(levels, min(branching, candidates), float(miss) / _MORE)
    return float_up(spread * ball(turns) + ball(levels * rounding))


def _least(
    missed: Callable[[Ball], Ball], miss: Fraction, scale: Fraction, others: Fraction | int
) -> float:
    """The scale times the least distance that is missed with a probability of at most `miss`."""
    # What cancels in a small chance is made good by as many more bits.
    with precision(BITS + 3 * miss.denominator.bit_length()):
        goal = ball(miss)

        def kept(away: float) -> bool:
            return missed(ball(away)) <= goal

        guess = float((ball(Fraction(others)) / goal).log1p())
        distance = 0.0 if kept(0.0) else boundary(kept, guess=guess)[1]
    return float_up(ball(distance) * ball(scale))


def _missed(noise: Noise, away: Ball, others: int, count: int) -> Ball:
    """The chance that one of `others` so far behind beats one of `count` equal ones, at most."""
    behind = (-away).exp()
    if noise == "gumbel":
        if count == 1:
            return _against(others * behind)
        return -(-others * behind * _harmonic(count)).expm1()
    if count == 1:
        both = (others + 1) * behind
        return 1 + ((others + 1) * _log_without(behind)).expm1() / both
    return -(others * _log_without(behind * count / (count + 1))).expm1()


def _harmonic(count: int) -> Ball:
    return ball(count + 1).digamma() + arb.const_euler()


def _against(weight: Ball) -> Ball:
    return weight / (1 + weight)


def _log_without(chance: Ball) -> Ball:
    return (-chance).log1p() if chance < 1 else ball(-math.inf)


@lru_cache(maxsize=256)
def _turns(levels: int, children: int, miss: float) -> float:
    """What wrong turns cost in all, in spreads, but for a probability of `miss`."""
    one = 0.0  # but for half of that, no turn costs more
    while levels * (children - 1) * _normal_tail(one) > miss / 2:
        one += 1 / 16
    reach = levels * one / (1 - levels / _COARSE)
    place = 0
    for cells in (_COARSE, _FINE):
        step = reach / cells
        kept = np.flatnonzero(_worst(levels, children, step, cells) <= miss)
        # The first table always says where; a finer one may miss its own end by an ulp.
        place = int(kept[0]) if kept.size or cells == _COARSE else cells
        reach = min((place + levels) * step, reach)
    return place * step * _MORE


def _worst(levels: int, children: int, step: float, cells: int) -> Floats:
    """Bounds on the probability that turns cost more than 0, step, 2 step, ..., at the worst.

    At each level the worst scores may be others, for what the turns before have cost; a wrong
    turn that costs g spreads is taken with probability Phi(-g) for each of the other children.
    """
    wrong = np.array([_normal_tail(cell * step) * _MORE for cell in range(cells + 1)])
    wrong *= children - 1
    passed = np.zeros(cells + 1)
    for _ in range(levels):
        # A turn that costs from a to a + 1 cells: as likely as the least, as dear as the most.
        before = np.concatenate([[1.0], passed])
        here = np.empty_like(passed)
        for cell in range(cells + 1):
            gained = before[cell::-1] - passed[cell]
            here[cell] = passed[cell] + (wrong[: cell + 1] * gained).max()
        passed = np.minimum(here * _MORE, 1.0)
    return passed


def _normal_tail(distance: float) -> float:
    return math.erfc(distance / math.sqrt(2)) / 2
