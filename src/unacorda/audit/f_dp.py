r"""One-run audits of a whole trade-off curve: tighter than those of one (epsilon, delta).

Let a mechanism have the trade-off function f. m canaries are in or out by fair coins, and g of them
are guessed. The probabilities of c or more right guesses satisfy a recursion that depends on f
alone (Mahloujifar, Melis, Chaudhuri 2024). It starts from the observed guesses, and f is refuted if
it ends above g / m.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable
from typing import Final, Literal

from numpy.typing import ArrayLike

from unacorda import checks
from unacorda.audit.arguments import one_of
from unacorda.audit.bounds import Bound, canaries, delta_of, ranked
from unacorda.audit.guesses import largest_rejected, p_value
from unacorda.audit.one_run import Sides, counts_right, ways_to_guess
from unacorda.errors import InvalidParameter
from unacorda.privacy.conversions import approx_dp_from_gdp

Inverse = Callable[[float], float]
Family = Literal["gaussian", "approximate"]

_STEPS: Final = 20_000
_NORMAL: Final = statistics.NormalDist()
_MARGIN: Final = 1e-9


def gaussian_inverse(mu: float) -> Inverse:
    """The map y -> sup {x: 1 - f(x) <= y} for f of mu-GDP: Phi(Phi^-1(y) - mu).

    >>> round(gaussian_inverse(1.0)(0.5), 6)
    0.158655
    """

    def inverse(y: float) -> float:
        if y <= 0:
            return 0.0
        return 1.0 if y >= 1 else _NORMAL.cdf(_NORMAL.inv_cdf(y) - mu)

    return inverse


def approximate_inverse(epsilon: float, delta: float) -> Inverse:
    """The same for f of (epsilon, delta)-DP, whose 1 - f is the least of two lines.

    >>> round(approximate_inverse(math.log(2), 0.0)(0.5), 6)
    0.25
    """
    low, high = math.exp(-epsilon), math.exp(epsilon)

    def inverse(y: float) -> float:
        return 1.0 if y >= 1 else max(0.0, (y - delta) * low, 1 - delta - high * (1 - y))

    return inverse


def refutes(inverse: Inverse, *, right: int, guesses: int, canaries: int, error: float) -> bool:
    r"""Whether these right guesses have probability at most `error` under a trade-off curve.

    Statement   If the chance of `right` or more were above error, then r = error right / m and
                h = error (g - right) / m would grow to r + h <= g / m under
                h' = max(h, inverse(r)), r <- r + i / (g - i) (h' - h), i = right - 1, ..., 0.
    Bound       lower: of more than 20,000 steps some are skipped, which can only lower r and h, as
                the factors i / (g - i) fall; what lies on the edge is not refuted.
    Source      Mahloujifar, Melis, Chaudhuri 2024, arXiv:2410.22235, Algorithm 3.
    """
    r, h = error * right / canaries, error * (guesses - right) / canaries
    most = guesses / canaries * (1 + _MARGIN)
    stride = -(-right // _STEPS)
    for i in range(right - 1, -1, -1):
        if i % stride:
            continue
        further = inverse(r)
        if further <= h:
            break  # neither grows any more
        r, h = r + i / (guesses - i) * (further - h), further
        if r + h > most:
            return True
    return False


def one_run_f_dp(
    scores: ArrayLike,
    included: ArrayLike,
    *,
    delta: float,
    confidence: float = 0.95,
    family: Family = "gaussian",
    guesses: int | Iterable[int] | None = None,
    sides: Sides = "both",
) -> Bound:
    r"""Bound epsilon from below by one run, through the trade-off functions of a family.

    Statement: no mechanism of the family with a smaller parameter gives so many right guesses with
    a probability above 1 - confidence.

    Bound: lower. Source: as for `refutes`.

    Parameters
    ----------
    scores, included, confidence, guesses, sides
        As for `one_run`.
    delta
        From 0 to below 1; above 0 with the Gaussian family.
    family
        "gaussian" bounds the mu of Gaussian DP, and converts it to epsilon at delta. It is valid
        for mechanisms with about the trade-off function of normal noise, such as DP-SGD, and
        tighter than `one_run`. "approximate" bounds epsilon of (epsilon, delta)-DP for any
        mechanism, by the better of this bound and that of `one_run`.

    Returns
    -------
    Bound
        With the number of guesses, and of right ones.

    Raises
    ------
    InvalidParameter
        As `one_run`, for another family, and for a delta of 0 with the Gaussian family, which then
        has no epsilon.

    Examples
    --------
    >>> import numpy as np
    >>> drawn = np.random.default_rng(1)
    >>> coins = drawn.random(2000) < 0.5
    >>> found = one_run_f_dp(2 * coins + drawn.normal(size=2000), coins, delta=1e-5)
    >>> 0.8 < found.mu < 2
    True
    """
    one_of("family", family, "gaussian", "approximate")
    values, coins = canaries(scores, included)
    loss, sure = delta_of(delta), checks.probability(confidence=confidence)
    if family == "gaussian" and loss == 0:
        raise InvalidParameter(
            "delta", delta, expected="above 0: Gaussian DP has no epsilon at delta 0"
        )
    many = ways_to_guess(guesses, canaries=values.size)
    order, error = ranked(values), (1 - sure) / len(many)

    def bound(count: int) -> tuple[float, int, int]:
        right = counts_right(order, coins, guesses=count, sides=sides)

        guessed: dict[str, int] = {"right": right, "guesses": count, "canaries": values.size}

        def rejected(parameter: float) -> float:
            if family == "gaussian":
                out = refutes(gaussian_inverse(parameter), error=error, **guessed)
            else:
                # Two bounds on one chance: the smaller one is a bound too.
                out = p_value(epsilon=parameter, delta=loss, **guessed) <= error or refutes(
                    approximate_inverse(parameter, loss), error=error, **guessed
                )
            return 0.0 if out else 1.0

        return largest_rejected(rejected, error=0.5, steps=24), count, right

    parameter, count, right = max(map(bound, many), key=lambda found: found[0])
    mu = parameter if family == "gaussian" else None
    epsilon = parameter if mu is None else approx_dp_from_gdp(mu, delta=loss) * (1 - _MARGIN)
    return Bound(
        epsilon=epsilon,
        delta=loss,
        confidence=sure,
        method=f"one run, f-DP ({family})",
        guesses=count,
        right=right,
        mu=mu,
    )
