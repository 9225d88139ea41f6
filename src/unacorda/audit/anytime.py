r"""A one-run audit of pure epsilon that is valid at any stopping time.

Guesses are made one after another, in an order that depends on the output, and each coin is
revealed after its guess. Given all revealed coins, a guess is right with probability at most q =
e^epsilon / (1 + e^epsilon). So bets on right guesses win nothing on average.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from unacorda import checks
from unacorda.audit.arguments import floats
from unacorda.audit.bounds import Bound, Floats, canaries, ranked
from unacorda.errors import InvalidParameter

_GRID: Final = 0.005
_MOST: Final = 16.0
_LARGEST: Final = 700.0
_LOOKS: Final = 300
_MARGIN: Final = 1e-6


def log_evidence(right: ArrayLike, guesses: ArrayLike, *, epsilon: ArrayLike) -> Floats:
    r"""Compute the logarithm of the evidence E against epsilon-DP after so many guesses.

    Statement: E = B(v + 1, t - v + 1) I_{1-q}(t - v + 1, v + 1) / ((1 - q) q^v (1 - q)^{t-v}), the
    uniform mixture over rates in [q, 1] of likelihood ratios, is a supermartingale that starts at 1
    under epsilon-DP: P[E >= 1 / a for some t] <= a.

    Bound: lower, by a part in a million for rounding. Source: docs/proofs/anytime_audit.md.

    Parameters
    ----------
    right, guesses
        Whole numbers: v right guesses of t. Arrays broadcast.
    epsilon
        From 0 to 700.

    Returns
    -------
    array of float
        The natural logarithm, of the shape that the arguments broadcast to.

    Raises
    ------
    InvalidParameter
        For numbers that are not whole, more right guesses than guesses, and an epsilon out of its
        range.

    Examples
    --------
    >>> float(log_evidence(0, 0, epsilon=1.0).round(5))
    -0.0
    """
    v, t = floats("right", right), floats("guesses", guesses)
    loss = floats("epsilon", epsilon)
    if not (np.isfinite(t).all() and (t >= 0).all() and (t == np.floor(t)).all()):
        raise InvalidParameter("guesses", guesses, expected="whole numbers, 0 or above")
    try:
        np.broadcast_shapes(v.shape, t.shape, loss.shape)
        possible = bool(((v >= 0) & (v <= t) & (v == np.floor(v))).all())
    except ValueError:  # shapes that do not fit
        possible = False
    if not possible:
        raise InvalidParameter(
            "right", right, expected="whole numbers from 0 to that of guesses, in shapes that fit"
        )
    if not ((loss >= 0) & (loss <= _LARGEST)).all():
        raise InvalidParameter("epsilon", epsilon, expected=f"numbers from 0 to {_LARGEST:g}")
    q, out = special.expit(loss), special.expit(-loss)
    with np.errstate(divide="ignore"):  # a vanishing tail is no evidence at all
        tail = np.log(special.betainc(t - v + 1, v + 1, out))
    found: Floats = (
        special.betaln(v + 1, t - v + 1)
        + tail
        - np.log(out)
        - v * np.log(q)
        - (t - v) * np.log(out)
        - _MARGIN
    )
    return found


def anytime(scores: ArrayLike, included: ArrayLike, *, confidence: float = 0.95) -> Bound:
    r"""Bound pure epsilon from below by one run, without a fixed number of guesses.

    Canaries are guessed in the order of their scores' distance from the median, the farthest first:
    "in" above it, "out" below. To stop sooner, to abstain or to choose another order from the
    revealed coins, use `log_evidence`.

    Statement: the mechanism is not epsilon-DP for any smaller epsilon, with this confidence. Each
    epsilon of a public grid has its own process; all below the first one whose evidence stays below
    1 / (1 - confidence) are refuted.

    Bound: lower. Source: docs/proofs/anytime_audit.md.

    Parameters
    ----------
    scores, included
        As for `one_run`.
    confidence
        The confidence of the bound, between 0 and 1.

    Returns
    -------
    Bound
        The lower bound, with the number of guesses.

    Raises
    ------
    InvalidParameter
        As `one_run`.

    Examples
    --------
    >>> drawn = np.random.default_rng(1)
    >>> coins = drawn.random(1000) < 0.5
    >>> anytime(coins + 0.3 * drawn.normal(size=1000), coins).epsilon > 2
    True
    """
    values, coins = canaries(scores, included)
    sure = checks.probability(confidence=confidence)
    away = _clearness(values)
    order = np.argsort(-np.abs(away), kind="stable")
    hits = (away[order] > 0) == coins[order]
    right = np.cumsum(hits)
    # Looking at fewer times than all is stopping at these, which keeps the promise.
    looks = np.unique(np.geomspace(1, values.size, _LOOKS).astype(int))
    grid = np.arange(0.0, _MOST, _GRID)
    needed = -math.log1p(-sure)
    best, at = 0.0, int(looks[-1])
    for chunk in np.array_split(grid, 32):
        evidence = log_evidence(right[looks - 1][:, None], looks[:, None], epsilon=chunk)
        most = evidence.max(axis=0)
        refuted = most >= needed
        count = int(np.argmin(refuted)) if not refuted.all() else chunk.size
        if count:
            best = float(chunk[count - 1])
            at = int(looks[np.argmax(evidence[:, count - 1])])
        if count < chunk.size:
            break
    return Bound(
        epsilon=best,
        delta=0.0,
        confidence=sure,
        method="one run, anytime",
        guesses=at,
        right=int(right[at - 1]),
    )


def _clearness(values: Floats) -> Floats:
    """Signed ranks about the middle: positive for the upper half, larger for clearer ones."""
    if values.size < 2:
        raise InvalidParameter("scores", values.size, expected="at least two canaries")
    above = np.empty(values.size)
    above[ranked(values)] = np.arange(values.size)
    centred: Floats = (values.size - 1) / 2 - above
    return centred
