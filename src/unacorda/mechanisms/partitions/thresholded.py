r"""Noisy counts of private keys that exceed a threshold.

Only keys with a record get noise, so a key of only one person can reveal that the person is in the
data. The probability that noise lifts such a key over the threshold is the delta of the release,
and is computed exactly (docs/proofs/keys.md, section 2).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks
from unacorda.balls import Ball, ball, greatest, normal_cdf
from unacorda.bits import RandomBits, source_of
from unacorda.checks import Number
from unacorda.mechanisms.noise import discrete, rounding
from unacorda.mechanisms.noise.continuous import gaussian_chunk
from unacorda.mechanisms.parameters import (
    Real,
    decimal_up,
    exact_root_down,
    inverse_root_up,
    positive,
    readable,
    some_of,
    whole,
)
from unacorda.mechanisms.partitions.selection import Key, counted, in_order, unzipped
from unacorda.numerics import least_whole
from unacorda.privacy import events
from unacorda.privacy.events.fields import keep
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP

Integers = NDArray[np.int64]

_MOST_KEYS: Final = 1000
_END: Final = 1 << 53
_LESS: Final = 1 - Fraction(1, 1 << 40)  # covers the rounding of the noise multiplier


class ThresholdedNoise(ABC):
    """Noise on the counts of private keys; those that reach a threshold are released."""

    __slots__ = ()

    threshold: int
    l0_sensitivity: int
    linf_sensitivity: int

    def probability(self, count: int) -> float:
        """Compute the probability that a key of this count is released, as a float, for planning.

        >>> [
        ...     round(ThresholdedLaplace(scale=2, threshold=25).probability(n), 4)
        ...     for n in (1, 25, 40)
        ... ]
        [0.0, 0.6225, 0.9998]
        """
        number = whole("count", count, least=0, most=_END)
        return float(self._chance(self.threshold - number)) if number else 0.0

    def release(
        self, counts: Mapping[Key, int], *, bits: RandomBits | None = None
    ) -> dict[Key, int]:
        """Release the noisy counts that reach the threshold, by key, sorted by key.

        Parameters
        ----------
        counts
            The count of each key, integers. A count below 1 means an absent key, which is never
            released; one above 2^53 counts as that.
        bits
            By default a secure source.

        Raises
        ------
        InvalidParameter
            For what is no mapping to integers.
        """
        keys, values = unzipped(counts)
        kept, noisy = self.release_array(values, bits=bits)
        found = {keys[place]: int(noisy[place]) for place in np.flatnonzero(kept).tolist()}
        return {key: found[key] for key in in_order(found)}

    def release_array(
        self, counts: ArrayLike, *, bits: RandomBits | None = None
    ) -> tuple[NDArray[np.bool_], Integers]:
        """Release which counts of an array of any shape reach the threshold, and the noisy counts.

        The noisy count is 0 where nothing is released. Such keys, their number and the order of
        the array stay private. Raises InvalidParameter for a dtype that is not integer.
        """
        values = counted(counts)
        noisy = self._noise(values.shape, source_of(bits))
        noisy += values
        kept = (values > 0) & (noisy >= self.threshold)
        noisy *= kept
        return kept, noisy

    def _keep_whole(self) -> None:
        """Check the threshold and the sensitivities, and keep them as integers."""
        keys, step = _moves(self.l0_sensitivity, self.linf_sensitivity)
        threshold = whole("threshold", self.threshold, least=1, most=_END)
        keep(self, threshold=threshold, l0_sensitivity=keys, linf_sensitivity=step)

    @abstractmethod
    def _chance(self, distance: int) -> Ball:
        """P(noise >= distance)."""

    @abstractmethod
    def _noise(self, shape: tuple[int, ...], bits: RandomBits) -> Integers:
        """Whole noise for each count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdedLaplace(ThresholdedNoise):
    r"""Release count + X for each present key, X discrete Laplace, if it reaches the threshold.

    It is (linf l0 / scale, 1 - (1 - p)^l0)-DP with p = P(X >= threshold - linf).

    Source: Korolova, Kenthapadi, Mishra, Ntoulas 2009 (stability-based); the proof, exact for
    integers, in docs/proofs/keys.md, section 2.

    Parameters
    ----------
    scale
        Of the noise, P(X = k) proportional to exp(-|k| / scale), above 0.
    threshold
        The least noisy count that is released, a whole number.
    l0_sensitivity
        How many keys one person can have.
    linf_sensitivity
        The most that a person adds to the count of one key, a whole number.

    Examples
    --------
    >>> from unacorda.bits import SeededBits
    >>> counts = ThresholdedLaplace(scale=2, threshold=25)
    >>> counts.release({"flu": 812, "cold": 97, "kuru": 1}, bits=SeededBits(1))
    {'cold': 104, 'flu': 813}
    """

    scale: Real
    threshold: int
    l0_sensitivity: int = 1
    linf_sensitivity: int = 1

    def __post_init__(self) -> None:
        scale = positive("scale", self.scale)
        discrete.within_range("scale", checks.exact("scale", scale))
        self._keep_whole()
        keep(self, scale=scale)

    @staticmethod
    def for_guarantee(
        guarantee: ApproxDP, *, l0_sensitivity: int = 1, linf_sensitivity: int = 1
    ) -> ThresholdedLaplace:
        """Make the least noise, then the least threshold, that keep an ApproxDP guarantee.

        Parameters
        ----------
        guarantee
            An ApproxDP, with a delta above 0.
        l0_sensitivity
            The most keys of one person, 1 or more.
        linf_sensitivity
            The most that one person adds to the count of one key, 1 or more.

        Raises
        ------
        InvalidParameter
            For another guarantee, and numbers out of their range.

        Examples
        --------
        >>> from unacorda.privacy.guarantees import ApproxDP
        >>> ThresholdedLaplace.for_guarantee(ApproxDP(1, 1e-5)).threshold
        13
        """
        epsilon, delta = _with_delta(guarantee)
        keys, step = _moves(l0_sensitivity, linf_sensitivity)

        def at(threshold: int) -> ThresholdedLaplace:
            return ThresholdedLaplace(
                scale=keys * step / epsilon,
                threshold=threshold,
                l0_sensitivity=keys,
                linf_sensitivity=step,
            )

        return at(least_whole(lambda threshold: at(threshold).delta <= delta, start=step))

    @property
    def event(self) -> events.Event:
        """The cost of one release: noise on counts, and the chance to see a person's own key."""
        moved = self.l0_sensitivity * self.linf_sensitivity
        noise = events.DiscreteLaplace(scale=self.scale, sensitivity=moved)
        return noise + events.Approximate(epsilon=0, delta=self.delta)

    @property
    def delta(self) -> Real:
        """The probability that some key of only one person is released, rounded up."""
        return _laplace_delta(
            checks.exact("scale", self.scale),
            self.threshold - self.linf_sensitivity,
            self.l0_sensitivity,
        )

    def _chance(self, distance: int) -> Ball:
        return _laplace_tail(checks.exact("scale", self.scale), distance)

    def _noise(self, shape: tuple[int, ...], bits: RandomBits) -> Integers:
        scale = checks.exact("scale", self.scale)
        draws = discrete.discrete_laplace(scale=scale, size=math.prod(shape), bits=bits)
        return draws.reshape(shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdedGaussian(ThresholdedNoise):
    r"""Release count + Z for each present key, Z normal and rounded, if it reaches the threshold.

    Source: Wilkins, Kifer, Zhang, Karrer 2024 (the Gaussian sparse histogram); the
    proof in docs/proofs/keys.md, section 3.

    Parameters
    ----------
    sigma
        Standard deviation of the noise before it is rounded to whole numbers, above 0.
    threshold, l0_sensitivity, linf_sensitivity
        As for `ThresholdedLaplace`; l0_sensitivity at most 1000.
    epsilon
        If given, `event` states the exact delta at it, for one release. By default the event is the
        noise and the chance to see a person's own key, which composes better.

    Examples
    --------
    >>> from unacorda.privacy.guarantees import ApproxDP
    >>> counts = ThresholdedGaussian.for_guarantee(ApproxDP(1, 1e-5), l0_sensitivity=10)
    >>> counts.threshold, counts.event
    (60, Approximate(epsilon=1, delta=9.5469609063749e-06))
    """

    sigma: Real
    threshold: int
    l0_sensitivity: int = 1
    linf_sensitivity: int = 1
    epsilon: Real | None = None

    def __post_init__(self) -> None:
        sigma = positive("sigma", self.sigma)
        rounding.grid_ratio("sigma", checks.exact("sigma", sigma), 0)
        epsilon = None if self.epsilon is None else positive("epsilon", self.epsilon)
        self._keep_whole()
        keep(self, sigma=sigma, epsilon=epsilon)

    @staticmethod
    def for_guarantee(
        guarantee: ApproxDP | ZCDP | GDP, *, l0_sensitivity: int = 1, linf_sensitivity: int = 1
    ) -> ThresholdedGaussian:
        """Make the noise, then the least threshold, that keep a guarantee with a delta.

        For ZCDP and GDP the whole delta goes to the threshold. For ApproxDP half of it does; other
        shares change both numbers by a few percent.

        Parameters
        ----------
        guarantee
            An ApproxDP, ZCDP or GDP, with a delta above 0.
        l0_sensitivity
            The most keys of one person, 1 or more.
        linf_sensitivity
            The most that one person adds to the count of one key, 1 or more.

        Raises
        ------
        InvalidParameter
            For another guarantee, and numbers out of their range.

        Examples
        --------
        >>> from unacorda.privacy.guarantees import ZCDP
        >>> ThresholdedGaussian.for_guarantee(ZCDP(0.02, delta=1e-8)).threshold
        30
        """
        keys, step = _moves(l0_sensitivity, linf_sensitivity)
        if isinstance(guarantee, ZCDP | GDP):
            (main, delta), epsilon = some_of(guarantee, type(guarantee)).additive, None
            positive("delta", delta)
            square = (2 * main if isinstance(guarantee, ZCDP) else main) * _LESS
        else:
            epsilon, delta = _with_delta(guarantee)
            square = GDP.within(ApproxDP(epsilon, delta / 2)).mu_squared
        sigma = step * inverse_root_up(square / keys)

        def at(threshold: int) -> ThresholdedGaussian:
            return ThresholdedGaussian(
                sigma=sigma,
                threshold=threshold,
                l0_sensitivity=keys,
                linf_sensitivity=step,
                epsilon=None if epsilon is None else readable(epsilon),
            )

        shown = least_whole(
            lambda t: _gaussian_delta(sigma, t, keys, step, epsilon=None) <= delta, start=step
        )
        if epsilon is None:
            return at(shown)
        return at(least_whole(lambda threshold: at(threshold).delta(epsilon) <= delta, start=shown))

    @property
    def event(self) -> events.Event:
        """What one release costs."""
        if self.epsilon is not None:
            return events.Approximate(epsilon=self.epsilon, delta=self.delta(self.epsilon))
        shown = _gaussian_delta(*self._numbers(), epsilon=None)
        return events.Gaussian(noise_multiplier=self._multiplier()) + events.Approximate(
            epsilon=0, delta=shown
        )

    def delta(self, epsilon: Number) -> Real:
        """Return the least delta of one release at an epsilon, rounded up.

        Parameters
        ----------
        epsilon
            A number, 0 or above.

        Returns
        -------
        Fraction or float
            0 or above.

        Raises
        ------
        InvalidParameter
            For a negative epsilon.

        Examples
        --------
        >>> round(ThresholdedGaussian(sigma=5, threshold=25).delta(1), 9)
        1.301e-06
        """
        exact = checks.exact("epsilon", epsilon)
        if exact < 0:
            positive("epsilon", epsilon)
        return _gaussian_delta(*self._numbers(), epsilon=exact)

    def _chance(self, distance: int) -> Ball:
        return _tail(ball((distance - Fraction(1, 2)) / checks.exact("sigma", self.sigma)))

    def _noise(self, shape: tuple[int, ...], bits: RandomBits) -> Integers:
        sigma = checks.exact("sigma", self.sigma)
        floors = rounding.add_to_floats(
            np.zeros(shape), grid=0, ratio=sigma, bits=bits, draw=gaussian_chunk
        )
        return floors.astype(np.int64)

    def _numbers(self) -> tuple[Fraction, int, int, int]:
        sigma = checks.exact("sigma", self.sigma)
        return sigma, self.threshold, self.l0_sensitivity, self.linf_sensitivity

    def _multiplier(self) -> Real:
        """The noise multiplier sigma / (linf sqrt(l0)), rounded down."""
        sigma, _, keys, step = self._numbers()
        return exact_root_down((sigma / step) ** 2 / keys)


def _moves(keys: int, step: int) -> tuple[int, int]:
    return (
        whole("l0_sensitivity", keys, least=1, most=_MOST_KEYS),
        whole("linf_sensitivity", step, least=1, most=_END),
    )


def _with_delta(guarantee: ApproxDP) -> tuple[Fraction, Fraction]:
    """Epsilon and delta of a guarantee, both above 0."""
    epsilon = some_of(guarantee, ApproxDP).epsilon
    positive("delta", guarantee.delta)
    return epsilon, guarantee.delta


@lru_cache(maxsize=256)
def _laplace_delta(scale: Fraction, distance: int, keys: int) -> Real:
    """1 - (1 - P(X >= distance))^keys for the discrete Laplace X, rounded up."""
    return _any_of(_laplace_tail(scale, distance), keys)


def _laplace_tail(scale: Fraction, distance: int) -> Ball:
    """P(X >= distance) for the discrete Laplace X."""
    q = (-1 / ball(scale)).exp()
    return q**distance / (1 + q) if distance > 0 else 1 - q ** (1 - distance) / (1 + q)


@lru_cache(maxsize=1024)
def _gaussian_delta(
    sigma: Fraction, threshold: int, keys: int, step: int, *, epsilon: Fraction | None
) -> Real:
    """The exact delta at an epsilon, or for None the chance to see any of a person's own keys."""
    shown = _tail(ball((threshold - step - Fraction(1, 2)) / sigma))
    if epsilon is None or not shown < 1:
        return _any_of(shown, keys)
    growth, unseen = ball(epsilon).exp(), (-shown).log1p()
    worst = -(keys * unseen).expm1()
    for shared in range(1, keys + 1):
        # Others have `shared` of a person's keys as well; the rest is theirs alone (see the proof).
        mu, log_stay = ball(shared).sqrt() * ball(step / sigma), (keys - shared) * unseen
        stay = log_stay.exp()
        with_unit, without = (ball(epsilon) - log_stay) / mu, (ball(epsilon) + log_stay) / mu
        worst = greatest(
            [
                worst,
                -log_stay.expm1()
                + stay * _tail(with_unit - mu / 2)
                - growth * _tail(with_unit + mu / 2),
                _tail(without - mu / 2) - stay * growth * _tail(without + mu / 2),
            ]
        )
    return _chance_up(worst)


def _any_of(chance: Ball, keys: int) -> Real:
    return _chance_up(-(keys * (-chance).log1p()).expm1())


def _chance_up(chance: Ball) -> Real:
    """The probability, rounded up, and 1 at most."""
    return decimal_up(chance) if chance < 1 else 1


def _tail(distance: Ball) -> Ball:
    """P(N(0, 1) >= distance)."""
    return normal_cdf(-distance)
