"""Audits of a mechanism that ran once, with canaries in or out by fair coins."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from unacorda import checks
from unacorda.audit.arguments import items_of, one_of
from unacorda.audit.bounds import Bools, Bound, canaries, delta_of, ranked
from unacorda.audit.guesses import largest_rejected, p_value
from unacorda.errors import InvalidParameter

Sides = Literal["both", "in"]

_PARTS: Final = (6, 32)
"""Which parts of the canaries are guessed at by default: near the best for most noise."""


def one_run(
    scores: ArrayLike,
    included: ArrayLike,
    *,
    delta: float = 0.0,
    confidence: float = 0.95,
    guesses: int | Iterable[int] | None = None,
    sides: Sides = "both",
) -> Bound:
    r"""Bound epsilon from below by one run on many canaries.

    Of equal scores the earlier one counts as higher.

    Statement: epsilon of (epsilon, delta)-DP, under adding or removing one canary, is at least this
    with probability `confidence`.

    Bound: lower. Source: Steinke, Nasr, Jagielski 2023, arXiv:2305.08846, Theorem 5.2.

    Parameters
    ----------
    scores
        One number per canary, computed only from the release and from the canary: the higher, the
        likelier it was in.
    included
        The coins, one boolean a canary, fair and independent.
    delta
        From 0, below 1.
    confidence
        Between 0 and 1, at which the bound is true.
    guesses
        How many canaries are guessed, those with the most extreme scores. Several numbers are tried
        with a Bonferroni correction; None means a sixth of all and a 32nd of all. They must be
        chosen before the coins are seen.
    sides
        "both" guesses "in" for the highest scores and "out" for as many of the lowest; "in" guesses
        only the highest.

    Returns
    -------
    Bound
        With the number of guesses, and of right ones.

    Raises
    ------
    InvalidParameter
        For NaN scores, arrays of different lengths, canaries all in or all out, more guesses than
        canaries, and numbers out of their range.

    Examples
    --------
    >>> drawn = np.random.default_rng(1)
    >>> coins = drawn.random(1000) < 0.5
    >>> found = one_run(coins + 0.3 * drawn.normal(size=1000), coins)
    >>> found.epsilon > 2, found.guesses
    (True, 166)
    """
    values, coins = canaries(scores, included)
    loss, sure = delta_of(delta), checks.probability(confidence=confidence)
    many = ways_to_guess(guesses, canaries=values.size)
    order = ranked(values)
    error = (1 - sure) / len(many)

    def bound(count: int) -> tuple[float, int, int]:
        right = counts_right(order, coins, guesses=count, sides=sides)
        found = largest_rejected(
            lambda epsilon: p_value(
                right=right, guesses=count, canaries=values.size, epsilon=epsilon, delta=loss
            ),
            error=error,
        )
        return found, count, right

    epsilon, count, right = max(map(bound, many), key=lambda found: found[0])
    crowded = values.size * loss >= 0.5
    return Bound(
        epsilon=epsilon,
        delta=loss,
        confidence=sure,
        method="one run",
        guesses=count,
        right=right,
        note="canaries times delta is near 1 or above, where this audit stalls: one_run_f_dp "
        "does not"
        if crowded
        else "",
    )


def ways_to_guess(guesses: int | Iterable[int] | None, *, canaries: int) -> list[int]:
    """The numbers of guesses to try, each from 1 to the number of canaries.

    >>> ways_to_guess(None, canaries=100)
    [16, 3]
    """
    if guesses is None:
        return sorted({max(1, canaries // part) for part in _PARTS}, reverse=True)
    asked: list[int]
    if isinstance(guesses, int | np.integer):
        asked = [int(guesses)]
    else:
        asked = items_of("guesses", guesses, expected="a whole number, several of them, or None")
    if not asked:
        raise InvalidParameter("guesses", asked, expected="at least one number of guesses")
    for count in asked:
        if checks.positive_integer(guesses=count) > canaries:
            raise InvalidParameter(
                "guesses", count, expected=f"no more than there are canaries ({canaries})"
            )
    return sorted({int(count) for count in asked}, reverse=True)


def counts_right(order: np.ndarray, coins: Bools, *, guesses: int, sides: Sides) -> int:
    """The number of right guesses; of an odd number one more is guessed to be in."""
    one_of("sides", sides, "both", "in")
    inside = guesses if sides == "in" else (guesses + 1) // 2
    outside = guesses - inside
    right = int(np.count_nonzero(coins[order[:inside]]))
    if outside:
        right += outside - int(np.count_nonzero(coins[order[-outside:]]))
    return right
