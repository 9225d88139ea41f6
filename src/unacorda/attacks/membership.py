r"""Membership inference: who was in a table, from its released means."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from unacorda import checks
from unacorda.attacks.attack import Attack
from unacorda.audit import one_run_f_dp
from unacorda.audit.arguments import called, floats
from unacorda.audit.bounds import delta_of
from unacorda.bits import RandomBits, fair_coins
from unacorda.errors import InvalidParameter

_LARGEST: Final = 1e100
_FEWEST: Final = 40
"""With so many coins there are both kinds, but for a chance of 2^-39."""

Floats = NDArray[np.float64]


def membership(
    people: ArrayLike,
    *,
    population: ArrayLike | None = None,
    defended: Callable[[Floats], ArrayLike] | None = None,
    promised: float | None = None,
    delta: float = 1e-5,
    bits: RandomBits | None = None,
) -> Attack:
    r"""Distinguish members of a table from others by its released column means.

    Half of the people are members. A person's score is the inner product of their deviation from
    the population mean and that of the release. The scores of the others show the effect of chance.

    Source: Homer et al. 2008 (genomes); Dwork, Smith, Steinke, Ullman, Vadhan 2015, section 3.

    Parameters
    ----------
    people
        n x d finite numbers, one row per person, for at least 40 people; fair coins decide who is a
        member.
    population
        d population means that the attacker knows; None for those of all n people.
    defended
        A function from the members' rows to their released means; None releases the exact means.
    promised
        The epsilon that `defended` guarantees at delta, for comparison with the bound.
    delta
        From 0, below 1, of the bound on epsilon.
    bits
        Of the coins; by default a secure source.

    Returns
    -------
    Attack
        Scores, truth and the bound on epsilon.

    Raises
    ------
    InvalidParameter
        For arrays of another shape or with NaN, and for a release that is not d numbers.

    Examples
    --------
    >>> from unacorda.bits import SeededBits
    >>> drawn = np.random.default_rng(1)
    >>> snps = (drawn.random((200, 4000)) < 0.3).astype(float)
    >>> membership(snps, bits=SeededBits(1)).auc > 0.99
    True
    """
    rows = floats("people", people)
    if (
        rows.ndim != 2
        or rows.shape[0] < _FEWEST
        or rows.shape[1] < 1
        or not np.isfinite(rows).all()
    ):
        raise InvalidParameter(
            "people",
            f"an array of shape {rows.shape}",
            expected=f"at least {_FEWEST} rows of finite numbers, one row per person",
        )
    base = rows.mean(axis=0) if population is None else _means("population", population, rows)
    if defended is not None:
        called(defended=defended)
    delta_of(delta)
    coins = fair_coins(len(rows), bits)
    inside = rows[coins]
    means = inside.mean(axis=0) if defended is None else defended(inside)
    release = _means("defended", means, rows)
    scores = (rows - base) @ (release - base)
    return Attack(
        scores=scores,
        truth=coins,
        bound=one_run_f_dp(scores, coins, delta=delta, family="approximate"),
        promised=promised,
    )


def expected_power(*, dimension: int, members: int, noise: float = 0.0, fpr: float = 0.01) -> float:
    r"""Approximate the share of members that the attack finds at a false-positive rate.

    Scores of members exceed those of others by s^2 d / n on average, and deviate by
    s^2 sqrt(d (1/n + noise^2)).

    Source: Dwork et al. 2015, section 3 (whose lower bound this is: noise of sqrt(d) / n hides only
    those who are hidden anyway).

    Parameters
    ----------
    dimension
        d attributes of about the same variance s^2, independent; from 1 on.
    members
        n people in the table; from 1 on.
    noise
        The standard deviation of the noise in each mean, over s; 0 or above.
    fpr
        The rate of false alarms, between 0 and 1.

    Returns
    -------
    float
        The share of members found.

    Raises
    ------
    InvalidParameter
        For numbers out of their range.

    Examples
    --------
    >>> round(expected_power(dimension=1000, members=100), 3)
    0.798
    """
    d, n = checks.positive_integer(dimension=dimension), checks.positive_integer(members=members)
    far = checks.non_negative(noise=noise)
    for name, value in (("dimension", d), ("members", n), ("noise", far)):
        if value > _LARGEST:
            raise InvalidParameter(name, value, expected=f"at most {_LARGEST:g}")
    spread = math.sqrt(d * (1 / n + far**2))
    gap = d / n / spread
    return float(special.ndtr(gap + special.ndtri(checks.probability(fpr=fpr))))


def _means(name: str, values: ArrayLike, rows: Floats) -> Floats:
    found = floats(name, values)
    if found.shape != (rows.shape[1],) or not np.isfinite(found).all():
        raise InvalidParameter(
            name,
            f"an array of shape {found.shape}",
            expected=f"{rows.shape[1]} finite numbers, one per column",
        )
    return found
