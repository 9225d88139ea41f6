r"""The privacy loss of a mechanism whose outputs can be listed, computed exactly."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from numbers import Rational
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from unacorda.audit.arguments import called, floats, level
from unacorda.audit.bounds import delta_of
from unacorda.errors import InvalidParameter
from unacorda.privacy.conversions import approx_dp_delta_from_gdp
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP, RenyiDP

Law = Mapping[Any, Any]
Floats = NDArray[np.float64]

_ROUNDED: Final = 1e-12
_GRID: Final = np.linspace(0, 20, 401).tolist()
_DIRECTIONS: Final = ("remove", "add")


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class HockeyStick:
    """delta(epsilon) of two distributions on the same outputs, in both directions, rounded up.

    Both orders of the neighbors count.

    Parameters
    ----------
    p, q
        Arrays of the probabilities of the outputs on the two inputs.
    rest
        The mass of either distribution that was not listed; it is added to every delta.

    Examples
    --------
    >>> HockeyStick(p=np.array([0.75, 0.25]), q=np.array([0.25, 0.75]))
    HockeyStick(2 outputs, epsilon 1.0986 at delta 0)
    """

    p: Floats
    q: Floats
    rest: float = 0.0

    def __post_init__(self) -> None:
        for name in ("p", "q"):
            masses = floats(name, getattr(self, name))
            if masses.ndim != 1 or not ((masses >= 0) & (masses <= 1 + _ROUNDED)).all():
                raise InvalidParameter(
                    name, f"an array of shape {masses.shape}", expected="a line of probabilities"
                )
            object.__setattr__(self, name, masses)
        if self.p.size != self.q.size:
            expected = f"one probability for each of the {self.p.size} outputs"
            raise InvalidParameter("q", f"{self.q.size} probabilities", expected=expected)
        if not 0 <= level(rest=self.rest) <= 1:
            raise InvalidParameter("rest", self.rest, expected="a number from 0 to 1")

    def delta(self, epsilon: float) -> float:
        """Sum up the excess of one distribution over e^epsilon times the other, at its worst.

        Parameters
        ----------
        epsilon
            A number, 0 or above.

        Returns
        -------
        float
            The least delta, from 0 to 1.
        """
        tilt = level(epsilon=epsilon)
        return max(self._delta(tilt, way) for way in _DIRECTIONS)

    def epsilon(self, delta: float = 0.0) -> float:
        """Find the least epsilon for a given delta.

        Parameters
        ----------
        delta
            A number from 0 to 1.

        Returns
        -------
        float
            The epsilon, 0 or above; infinite if none is enough.
        """
        allowed = delta_of(delta)
        return max(self._epsilon(allowed, way) for way in _DIRECTIONS)

    def curve(self, epsilons: Floats) -> Floats:
        """Compute `delta` at several epsilons, for a picture.

        Parameters
        ----------
        epsilons
            Numbers, 0 or above.

        Returns
        -------
        ndarray
            The delta of each.
        """
        return np.array([self.delta(e) for e in floats("epsilons", epsilons).ravel().tolist()])

    def violates(self, guarantee: Guarantee) -> bool:
        """Say whether a guarantee is violated for certain, by more than the rounding of 1e-12.

        Mass that is not listed counts in favor of the guarantee: an output of only one distribution
        may have that much mass under the other, and rounding may hide 1e-12. Gaussian DP is
        compared with the whole curve, zCDP and Renyi DP with the divergences of their orders (zCDP:
        60 orders from 1.01 to 500).

        Parameters
        ----------
        guarantee
            What is promised.
        """
        match guarantee:
            case PureDP(epsilon):
                return self._above(float(epsilon), 0.0)
            case ApproxDP(epsilon, delta):
                return self._above(float(epsilon), float(delta))
            case GDP():
                mu, spare = guarantee.mu, float(guarantee.delta)
                return any(
                    self._above(e, spare + approx_dp_delta_from_gdp(mu, epsilon=e)) for e in _GRID
                )
            case ZCDP(rho) if not guarantee.delta:
                orders = 1 + np.geomspace(0.01, 499, 60)
                return any(self._told(float(a)) > a * float(rho) * (1 + 1e-9) for a in orders)
            case RenyiDP(alpha, epsilon):
                return self._told(float(alpha)) > float(epsilon) * (1 + 1e-9)
            case _:
                raise InvalidParameter(
                    "guarantee",
                    guarantee,
                    expected="PureDP, ApproxDP, GDP, RenyiDP, or ZCDP without delta",
                )

    def renyi(self, alpha: float) -> float:
        """Compute the Renyi divergence of order alpha, the larger of both directions.

        It is infinite if mass is not listed, since that may lie anywhere.

        Parameters
        ----------
        alpha
            The order, above 1.
        """
        order = level(alpha=alpha)
        if not 1 < order < math.inf:
            raise InvalidParameter("alpha", alpha, expected="a finite order above 1")
        return max(self._renyi(order, way) for way in _DIRECTIONS)

    def _above(self, epsilon: float, delta: float) -> bool:
        """Whether delta(epsilon) is above this, wherever the mass lies that was left out."""
        factor = math.exp(min(epsilon, 709.0))

        def least(way: str) -> float:
            first, second, alone = self._apart(way)
            over = math.fsum(np.maximum(first - factor * second, 0.0).tolist())
            return over + max(0.0, alone - factor * self._hidden)

        return max(map(least, _DIRECTIONS)) > delta + _ROUNDED

    def _told(self, alpha: float) -> float:
        """A lower bound on the Renyi divergence: outputs that one law lists alone are one output.

        Source: the divergence does not grow by merging outputs (van Erven, Harremoes 2014,
        Theorem 9), and falls in what the second law gives to one.
        """

        def least(way: str) -> float:
            first, second, alone = self._apart(way)
            p, q = np.append(first, alone), np.append(second, self._hidden)
            return _divergence(p[p > 0], q[p > 0], alpha)

        return max(map(least, _DIRECTIONS))

    @property
    def _hidden(self) -> float:
        """What a law may have of outputs at which it lists nothing."""
        return max(self.rest, _ROUNDED)

    def _apart(self, way: str) -> tuple[Floats, Floats, float]:
        """The masses of the outputs that the second law lists, and the first law's other mass."""
        first, second = self._pair(way)
        listed = second > 0
        return first[listed], second[listed], math.fsum(first[~listed].tolist())

    def _pair(self, way: str) -> tuple[Floats, Floats]:
        return (self.p, self.q) if way == "remove" else (self.q, self.p)

    def _delta(self, epsilon: float, way: str) -> float:
        first, second = self._pair(way)
        with np.errstate(over="ignore", invalid="ignore"):
            over = first - np.where(second > 0, np.exp(min(epsilon, 709.0)) * second, 0.0)
        found = math.fsum(np.maximum(over, 0.0).tolist()) + self.rest
        return min(1.0, found * (1 + _ROUNDED))

    def _epsilon(self, delta: float, way: str) -> float:
        """At the kinks the curve is known; between two of them it is a line in e^epsilon."""
        first, second = self._pair(way)
        for_nothing = math.fsum(first[second == 0].tolist()) + self.rest
        if for_nothing > delta * (1 + _ROUNDED):
            return math.inf
        both = (first > 0) & (second > 0)
        with np.errstate(over="ignore"):
            order = np.argsort(-(first[both] / second[both]))
        p, q = first[both][order].tolist(), second[both][order].tolist()
        unpaid = [for_nothing, -delta] if for_nothing < delta else []

        # With the k largest ratios above e^epsilon, delta = above_k - e^epsilon below_k. The sums
        # are rounded once, as little is left of them where delta is nearly all of the first one.
        def kink(k: int) -> tuple[float, float]:
            return math.fsum(unpaid + p[:k]), math.fsum(q[:k])

        def falls(k: int) -> bool:
            above, below = kink(k)
            return k > 0 and Fraction(p[k]) * Fraction(below) <= Fraction(q[k]) * Fraction(above)

        # One more ratio moves above_k / below_k towards itself: up at first, and down from then on.
        above, below = kink(bisect_left(range(len(p)), x=True, key=falls))
        return max(0.0, math.log(above) - math.log(below) + _ROUNDED) if above > 0 else 0.0

    def _renyi(self, alpha: float, way: str) -> float:
        first, second = self._pair(way)
        if self.rest or (first[second == 0] > 0).any():
            return math.inf
        both = first > 0
        return _divergence(first[both], second[both], alpha)

    def __repr__(self) -> str:
        return f"HockeyStick({self.p.size} outputs, epsilon {self.epsilon():.5g} at delta 0)"


def exact(law: Callable[[Any], Law], x: Any, neighbor: Any) -> HockeyStick:
    r"""Compute the hockey-stick curve of a mechanism on two neighboring inputs.

    Statement: delta(epsilon) = sum over outputs o of max(0, P[o] - e^epsilon Q[o]), the larger one
    of both directions.

    Bound: upper, by a part in 10^12, except for rounding of 10^-15 in a delta; without rest and
    rounding it is exact. `violates` uses lower bounds.

    Parameters
    ----------
    law
        From an input to its distribution, a mapping of outputs to their probabilities (floats, or
        Fractions for exact ones). For an infinite support list enough outputs: the mass that is not
        listed, the larger of the two, is added to every delta.
    x, neighbor
        Two inputs of the mechanism, of any type.

    Returns
    -------
    HockeyStick
        Delta by epsilon, and epsilon by delta.

    Raises
    ------
    InvalidParameter
        For distributions that are not mappings, and for probabilities that are negative, not finite
        or add up to more than 1.

    Examples
    --------
    >>> flip = lambda bit: {bit: Fraction(3, 4), 1 - bit: Fraction(1, 4)}
    >>> curve = exact(flip, 0, 1)
    >>> round(curve.epsilon(), 6) == round(math.log(3), 6), curve.violates(PureDP(1))
    (True, True)
    """
    called(law=law)
    first, second = _checked(law(x), "x"), _checked(law(neighbor), "neighbor")
    outputs: list[Hashable] = list({**first, **second})
    p = [first.get(output, 0) for output in outputs]
    q = [second.get(output, 0) for output in outputs]
    rest = max(_rest(p), _rest(q))
    return HockeyStick(np.array(p, dtype=np.float64), np.array(q, dtype=np.float64), rest)


def _divergence(first: Floats, second: Floats, alpha: float) -> float:
    """The Renyi divergence of laws, all of whose masses are above 0."""
    if not first.size:
        return 0.0
    logs = alpha * np.log(first) + (1 - alpha) * np.log(second)
    top = float(logs.max())
    return (top + math.log(math.fsum(np.exp(logs - top).tolist()))) / (alpha - 1)


def _checked(law: Law, name: str) -> dict[Any, Any]:
    if not isinstance(law, Mapping):
        expected = "a function whose answer is a mapping of outputs to probabilities"
        raise InvalidParameter("law", type(law).__name__, expected=expected)
    for output, mass in law.items():
        real = isinstance(mass, float | Rational | np.floating)
        if not real or not 0 <= float(mass) <= 1 + _ROUNDED:  # NaN fails too
            raise InvalidParameter(
                name, f"probability {mass!r} of {output!r}", expected="a number from 0 to 1"
            )
    if _sum(list(law.values())) > 1 + _ROUNDED:
        raise InvalidParameter(
            name,
            f"probabilities that add up to {float(_sum(list(law.values())))!r}",
            expected="at most 1",
        )
    return dict(law)


def _sum(masses: list[Any]) -> Any:
    if all(isinstance(mass, int | Fraction) for mass in masses):
        return sum(masses, Fraction())
    return math.fsum(masses)


def _rest(masses: list[Any]) -> float:
    left = float(1 - _sum(masses))
    return left if left > _ROUNDED else 0.0
