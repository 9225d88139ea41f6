r"""How far below the best the score of a chosen candidate can lie, said before any data is seen.

The bounds hold for every list of scores of the length given, and so tell nothing about any. For
noisy maxima the worst scores are known: all others as far behind as the bound. For the tree the
worst are found from the last question back to the first. Proofs in docs/proofs/noisy_max.md,
sections 4 and 5; everything is rounded up.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import numpy as np

from unacorda import checks
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.intervals import confident
from unacorda.mechanisms.selection.contest import Noise
from unacorda.mechanisms.selection.scores import Floats
from unacorda.privacy.enclosure import boundary, context, float_up, mpf

__all__ = ["noisy_max_loss", "odds_loss", "walk_loss"]

_COARSE: Final = 512  # cells of the first table of a walk, and of the one that counts
_FINE: Final = 2048
_DEEPEST: Final = 62
_LEAST_MISS: Final = Fraction(1, 10**200)
_MORE: Final = 1 + 2.0**-40  # above the errors of erfc and of the sums of a table


def noisy_max_loss(
    noise: Noise, scale: Fraction, *, confidence: Number, candidates: int, count: int = 1
) -> float:
    """How far the worst of the `count` told lies below the `count`-th largest score, at most.

    With probability `confidence` or more. For one candidate told no smaller number would do.
    """
    miss = 1 - confident(confidence)
    others = checks.positive_integer(candidates=candidates) - count
    if others < 0:
        raise InvalidParameter("candidates", candidates, expected=f"at least {count} of them")
    if others == 0:
        return 0.0
    if count == 1 and Fraction(others, candidates) <= miss:
        return 0.0  # what equal candidates do
    return _least(lambda mp, away: _missed(mp, noise, away, others, count), miss, scale, others)


def odds_loss(scale: Fraction, *, confidence: Number, odds: Fraction) -> float:
    """The same for one draw of the exponential mechanism.

    odds: the weight of all candidates but the best, over the weight of the best.
    """
    miss = 1 - confident(confidence)
    if odds / (1 + odds) <= miss:
        return 0.0
    return _least(lambda mp, away: _against(mpf(odds) * mp.exp(-away)), miss, scale, odds)


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
    if miss < _LEAST_MISS:
        raise InvalidParameter("confidence", confidence, expected="at most 1 - 10^-200")
    if levels > _DEEPEST:
        raise InvalidParameter("candidates", candidates, expected=f"at most 2^{_DEEPEST}")
    if levels == 0:
        return 0.0
    # The noise on the difference of two children, see the proof.
    spread = mpf(sigma) * context().sqrt(2 * branching)
    turns = _turns(levels, min(branching, candidates), float(miss) / _MORE)
    return float_up(spread * mpf(turns) + mpf(levels * rounding))


def _least(missed: Any, miss: Fraction, scale: Fraction, others: Fraction | int) -> float:
    """The scale times the least distance that is missed with a probability of at most `miss`."""
    mp = context()
    # What cancels in a small chance is made good by as many more bits.
    with mp.workprec(mp.prec + 3 * miss.denominator.bit_length()):
        goal = mpf(miss) * (1 - mp.ldexp(1, -100))

        def kept(away: float) -> bool:
            return bool(missed(mp, mpf(away)) <= goal)

        guess = float(mp.log1p(mpf(Fraction(others)) / goal))
        distance = 0.0 if kept(0.0) else boundary(kept, guess=guess)[1]
    return float_up(mpf(distance) * mpf(scale))


def _missed(mp: Any, noise: Noise, away: Any, others: int, count: int) -> Any:
    """The chance that one of `others` so far behind beats one of `count` equal ones, at most."""
    behind = mp.exp(-away)
    if noise == "gumbel":
        if count == 1:
            return _against(others * behind)
        return -mp.expm1(-others * behind * mp.harmonic(count))
    if count == 1:
        both = (others + 1) * behind
        return 1 + mp.expm1((others + 1) * _log_without(mp, behind)) / both
    return -mp.expm1(others * _log_without(mp, behind * count / (count + 1)))


def _against(weight: Any) -> Any:
    return weight / (1 + weight)


def _log_without(mp: Any, chance: Any) -> Any:
    return mp.log1p(-chance) if chance < 1 else -mp.inf


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
