"""Correlated noise over many steps: matrix factorisation and trees, as events."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from unacorda.checks import demand
from unacorda.errors import InvalidParameter
from unacorda.privacy.events.algebra import Event
from unacorda.privacy.events.fields import Real, finite, keep

__all__ = ["CyclicPoissonSampled", "MatrixFactorization", "TreeAggregation"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MatrixFactorization(Event):
    r"""Release C x + Z, Z with independent N(0, sigma^2) entries, and what is computed from it.

    Row t of x is the sum of the units' contributions at step t, each at most 1 in the l2 norm. C,
    the encoder, is lower triangular. If a unit is replaced, the contributions of both count.

    Source: Denisov, McMahan, Rush, Smith, Thakurta 2022; Choquette-Choo et al. 2023.

    Parameters
    ----------
    noise_multiplier
        sigma over that 1, above 0.
    encoder
        Its first column if it is a Toeplitz matrix (zeros follow), or its rows, row i with i + 1
        numbers.
    steps
        Rows of x.
    participations
        How often a unit takes part at most.
    separation
        How many steps lie between two of them at least, counted from one to the next.

    Examples
    --------
    >>> from unacorda import accounting
    >>> event = MatrixFactorization(noise_multiplier=2, encoder=(1, 0.5), steps=10)
    >>> round(accounting.rho(event), 5)
    0.15625
    """

    noise_multiplier: Real
    encoder: tuple[Real, ...] | tuple[tuple[Real, ...], ...]
    steps: int
    participations: int = 1
    separation: int = 1

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        keep(self, encoder=_encoder(self.encoder, self.steps))

    @property
    def toeplitz(self) -> bool:
        """Whether the encoder is given by its first column."""
        return not isinstance(self.encoder[0], tuple)

    def cyclic_poisson_sampled(self, *, rate: Real) -> CyclicPoissonSampled:
        """Return the mechanism on Poisson samples of groups of units that take turns.

        Parameters
        ----------
        rate
            Of a unit in a step of its own group.

        Returns
        -------
        CyclicPoissonSampled
            The event of all steps.
        """
        return CyclicPoissonSampled(event=self, rate=rate)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CyclicPoissonSampled(Event):
    """A banded matrix mechanism whose step t samples only from group t mod `separation`.

    Units are split into `separation` groups beforehand, independently of the data; each step
    samples the units of its group independently.

    Source: Choquette-Choo, Ganesh et al. 2023, Theorem 4 (BandMF).

    Parameters
    ----------
    event
        The matrix mechanism: the bands of its encoder are at most its separation, and its
        participations are not read.
    rate
        The probability of a unit to be in a step of its group, above 0, at most 1.

    Examples
    --------
    >>> from unacorda import accounting
    >>> bands = MatrixFactorization(noise_multiplier=2, encoder=(1, 0.5), steps=10, separation=2)
    >>> event = CyclicPoissonSampled(event=bands, rate=0.1)
    >>> round(accounting.epsilon(event, delta=1e-6), 3)
    0.917
    """

    event: MatrixFactorization
    rate: Real

    def __post_init__(self) -> None:
        if not isinstance(self.event, MatrixFactorization):
            raise InvalidParameter("event", self.event, expected="a MatrixFactorization")
        Event.__post_init__(self)
        demand(self.rate != 0, "rate", self.rate, expected="a number above 0, at most 1")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TreeAggregation(Event):
    r"""Release all node sums of a binary tree over the steps, each with N(0, sigma^2) noise.

    Source: Dwork, Naor, Pitassi, Rothblum 2010; Kairouz et al. 2021 (DP-FTRL), Theorem C.1.

    Parameters
    ----------
    noise_multiplier
        sigma over the l2 norm of a unit's contribution at one step, above 0.
    steps
        Leaves of the tree.
    participations
        How often a unit takes part at most.
    separation
        How many steps lie between two of them at least, as in MatrixFactorization.

    Examples
    --------
    >>> from unacorda import accounting
    >>> accounting.rho(TreeAggregation(noise_multiplier=4, steps=8))
    0.125
    """

    noise_multiplier: Real
    steps: int
    participations: int = 1
    separation: int = 1


def _encoder(
    value: Iterable[Real] | Iterable[Iterable[Real]], steps: int
) -> tuple[Real, ...] | tuple[tuple[Real, ...], ...]:
    expected = f"finite numbers, at most {steps}, or {steps} rows, row i of i + 1 finite numbers"
    try:
        given = [list(one) if isinstance(one, Iterable) else one for one in value]
    except TypeError:
        raise InvalidParameter("encoder", value, expected=expected) from None
    rows = [one for one in given if isinstance(one, list)]
    if not given or (rows and len(rows) != len(given)):
        raise InvalidParameter("encoder", value, expected=expected)
    if rows:
        if [len(row) for row in rows] != list(range(1, steps + 1)):
            raise InvalidParameter("encoder", value, expected=expected)
        return tuple(
            tuple(finite("encoder", number, expected=expected) for number in row) for row in rows
        )
    demand(len(given) <= steps, "encoder", value, expected=expected)
    numbers = cast("list[Real]", given)
    return tuple(finite("encoder", number, expected=expected) for number in numbers)
