"""Guarantees: the five definitions of privacy, as exact values. Standard library only."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import abc
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Self, TypeAlias, cast

from unacorda import checks
from unacorda.checks import Number
from unacorda.errors import InvalidParameter, WrongUnit
from unacorda.privacy import conversions  # each is loaded when it is first used
from unacorda.privacy.rounding import exact_root, grid_down, grid_up, root_down, root_near, root_up

# What the five kinds of guarantee share: operators on the numbers that add, and their text.
# repr() is the call that makes the value, str() is for sentences.


class Additive(abc.ABC):
    """The operators and the order of one kind of guarantee; it holds no data.

    A kind states which of its numbers add under composition (`additive`), and how to make a
    guarantee from such numbers (`with_additive`).
    """

    __slots__ = ()

    @property
    @abc.abstractmethod
    def additive(self) -> tuple[Fraction, ...]:
        """The numbers that add under composition."""

    @abc.abstractmethod
    def with_additive(self, numbers: Sequence[Fraction]) -> Self:
        """Return a guarantee of this kind (and this order, for Renyi) with other numbers.

        Parameters
        ----------
        numbers
            The numbers that add under composition, in the order of `additive`.

        Returns
        -------
        Guarantee
            Of the same class.
        """

    @property
    @abc.abstractmethod
    def parameters(self) -> dict[str, str]:
        """Its numbers by name, as decimals; an optional delta of 0 is left out."""

    def comparable_with(self, other: object) -> bool:
        """Say whether a value is a guarantee of this kind.

        Parameters
        ----------
        other
            Any value.

        Returns
        -------
        bool
            For Renyi DP its order must be the same too.
        """
        return type(self) is type(other)

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name}={number}" for name, number in self.parameters.items())
        return f"{type(self).__name__}({numbers})"

    def __str__(self) -> str:
        return ", ".join(f"{name} {_short(value)}" for name, value in self.parameters.items())

    def _pairs(self, other: object) -> list[tuple[Fraction, Fraction]]:
        if not isinstance(other, Additive):
            kind = type(self).__name__
            raise WrongUnit(self, other, hint=f"A {kind} adds to and compares with a {kind}.")
        if not self.comparable_with(other):
            kind = type(self).__name__
            hint = (
                f"Convert first: {kind}.within(...) where it exists, or ask .implies(...)."
                if kind != "RenyiDP"
                else "Renyi guarantees meet at one order alpha; ask .implies(...) otherwise."
            )
            raise WrongUnit(self, other, hint=hint)
        return list(zip(self.additive, other.additive, strict=True))

    def __add__(self, other: Additive) -> Self:
        return self.with_additive([mine + theirs for mine, theirs in self._pairs(other)])

    def __radd__(self, other: object) -> Self:
        if other == 0:  # sum() starts from 0
            return self
        return self.with_additive([mine + theirs for mine, theirs in self._pairs(other)])

    def __sub__(self, other: Additive) -> Self:
        left = [mine - theirs for mine, theirs in self._pairs(other)]
        checks.demand(min(left) >= 0, "other", other, expected=f"at most {self!r}")
        return self.with_additive(left)

    def __mul__(self, factor: Number) -> Self:
        scale = checks.exact("factor", factor)
        checks.demand(scale >= 0, "factor", factor, expected="a number, 0 or above")
        return self.with_additive([number * scale for number in self.additive])

    __rmul__ = __mul__

    def __truediv__(self, divisor: Number) -> Self:
        scale = checks.exact("divisor", divisor)
        checks.demand(scale > 0, "divisor", divisor, expected="a number above 0")
        return self.with_additive([number / scale for number in self.additive])

    def __le__(self, other: Additive) -> bool:
        return all(mine <= theirs for mine, theirs in self._pairs(other))

    def __lt__(self, other: Additive) -> bool:
        return self <= other and self != other

    def __ge__(self, other: Additive) -> bool:
        return all(mine >= theirs for mine, theirs in self._pairs(other))

    def __gt__(self, other: Additive) -> bool:
        return self >= other and self != other

    def to_json(self) -> str:
        """The guarantee as JSON text; numbers are exact fractions, written as text."""
        names: tuple[str, ...] = tuple(self.__dataclass_fields__)  # type: ignore[attr-defined]
        fields = {name: str(getattr(self, name)) for name in names}
        return json.dumps({"guarantee": type(self).__name__, **fields})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the guarantee that `to_json` wrote.

        Parameters
        ----------
        text
            That text.

        Returns
        -------
        Guarantee
            One of this class.

        Raises
        ------
        InvalidParameter
            For any other text.
        """
        value = guarantee_from_json(text)
        if not isinstance(value, cls):
            raise InvalidParameter("text", text, expected=f"the JSON text of a {cls.__name__}")
        return value

    def implies(self, other: Guarantee) -> bool:
        """Say whether a theorem of this package shows that this guarantee implies another.

        Parameters
        ----------
        other
            A guarantee of any class.

        Returns
        -------
        bool
            False also where no theorem is known.
        """
        return implies(cast("Guarantee", self), other)


def amount(name: str, value: Number) -> Fraction:
    """The argument, exactly, if it is 0 or above; else InvalidParameter."""
    number = checks.exact(name, value)
    checks.demand(number >= 0, name, value, expected="a finite number, 0 or above")
    return number


def share(name: str, value: Number) -> Fraction:
    """The argument, exactly, if it lies in [0, 1]; else InvalidParameter."""
    number = checks.exact(name, value)
    checks.demand(0 <= number <= 1, name, value, expected="a number from 0 to 1")
    return number


def decimal(value: Fraction) -> str:
    """Format the number as a float prints if that is exact, else with 12 digits, rounded up.

    It is rounded up because a printed guarantee must not promise more than the mechanism keeps.

    >>> decimal(Fraction(1, 10)), decimal(Fraction(1, 3))
    ('0.1', '0.333333333334')
    """
    nearest = float(value) if value < 10**300 else 0.0
    if Fraction(repr(nearest)) == value:
        return repr(nearest)
    context = Context(prec=12, rounding=ROUND_CEILING)
    quotient = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    if nearest > 1e-300:
        return f"{float(quotient):.12g}"
    return f"{quotient.normalize(context):g}"


def root_decimal(square: Fraction) -> str:
    """The square root of a rational number as text: exact where short, else 12 digits, up."""
    root = exact_root(square)
    if root is not None:
        return decimal(root)
    context = Context(prec=30)
    quotient = context.divide(Decimal(square.numerator), Decimal(square.denominator))
    return decimal(Fraction(quotient.sqrt(context).next_plus(context)))


@dataclass(frozen=True, slots=True, init=False, repr=False)
class PureDP(Additive):
    r"""Pure differential privacy: P(S) <= e^epsilon Q(S) for every event S and all neighbors.

    Epsilons add under composition. Source: Dwork, McSherry, Nissim, Smith 2006.

    Parameters
    ----------
    epsilon
        0 or above. A float means the decimal that it prints as: 0.1 is 1/10. Strings, Decimals and
        Fractions are accepted too.

    Raises
    ------
    InvalidParameter
        For a negative or non-finite epsilon.

    Examples
    --------
    >>> PureDP(0.1) * 10 == PureDP(1)
    True
    >>> PureDP(1) - PureDP("0.75")
    PureDP(epsilon=0.25)
    """

    epsilon: Fraction

    def __init__(self, epsilon: Number) -> None:
        object.__setattr__(self, "epsilon", amount("epsilon", epsilon))

    @property
    def additive(self) -> tuple[Fraction, ...]:
        """The numbers that add under composition: (epsilon,)."""
        return (self.epsilon,)

    def with_additive(self, numbers: Sequence[Fraction]) -> PureDP:
        """A guarantee of this kind with these additive numbers."""
        (epsilon,) = numbers
        return PureDP(epsilon)

    @staticmethod
    def within(target: Guarantee) -> PureDP:
        """Compute the largest epsilon for which pure DP implies `target`, rounded down.

        Parameters
        ----------
        target
            Any guarantee. The delta of a ZCDP or GDP target is not used.

        Returns
        -------
        PureDP
            A budget that keeps the target.

        Examples
        --------
        >>> PureDP.within(ZCDP(0.5))
        PureDP(epsilon=1.0436268956)
        """
        return pure_within(target)

    @property
    def parameters(self) -> dict[str, str]:
        """Epsilon."""
        return {"epsilon": decimal(self.epsilon)}


@dataclass(frozen=True, slots=True, init=False, repr=False)
class ApproxDP(Additive):
    r"""Approximate differential privacy: P(S) <= e^epsilon Q(S) + delta.

    Epsilons add under composition, and so do deltas, up to 1. The order is partial: if one value
    has the smaller epsilon and the other the smaller delta, neither is <=. Source: Dwork,
    Kenthapadi, McSherry, Mironov, Naor 2006.

    Parameters
    ----------
    epsilon
        0 or above. A float means the decimal it prints as.
    delta
        From 0 to 1; far below 1 / (number of people), such as 1e-8.

    Raises
    ------
    InvalidParameter
        For a number out of its range.

    Examples
    --------
    >>> ApproxDP(1.0, 1e-6) <= ApproxDP(2.0, 1e-7), ApproxDP(1.0, 1e-6) >= ApproxDP(2.0, 1e-7)
    (False, False)
    """

    epsilon: Fraction
    delta: Fraction

    def __init__(self, epsilon: Number, delta: Number) -> None:
        object.__setattr__(self, "epsilon", amount("epsilon", epsilon))
        object.__setattr__(self, "delta", share("delta", delta))

    @property
    def additive(self) -> tuple[Fraction, ...]:
        """The numbers that add under composition: (epsilon, delta)."""
        return (self.epsilon, self.delta)

    def with_additive(self, numbers: Sequence[Fraction]) -> ApproxDP:
        """A guarantee of this kind with these additive numbers; delta stops at 1."""
        epsilon, delta = numbers
        return ApproxDP(epsilon, min(delta, Fraction(1)))

    @staticmethod
    def within(target: Guarantee) -> ApproxDP:
        """Compute the largest epsilon, rounded down, that implies `target` at its own delta.

        Parameters
        ----------
        target
            A PureDP, ApproxDP, ZCDP or GDP.

        Returns
        -------
        ApproxDP
            A budget that keeps the target.

        Raises
        ------
        WrongUnit
            For a RenyiDP target: write PureDP.within(...).

        Examples
        --------
        >>> ApproxDP.within(PureDP(1))
        ApproxDP(epsilon=1.0, delta=0.0)
        """
        return approx_dp_within(target)

    @property
    def parameters(self) -> dict[str, str]:
        """Epsilon and delta."""
        return {"epsilon": decimal(self.epsilon), "delta": decimal(self.delta)}


@dataclass(frozen=True, slots=True, init=False, repr=False)
class ZCDP(Additive):
    r"""Zero-concentrated DP: the Renyi divergence of order alpha is at most rho alpha, alpha > 1.

    Rhos add under composition, and so do deltas. The order is partial, as that of ApproxDP.
    Source: Bun and Steinke 2016, arXiv:1605.02065, Definitions 1.1 and 8.1.

    Parameters
    ----------
    rho
        0 or above. A float means the decimal it prints as.
    delta
        From 0 to 1: the mass of the part of which this need not hold (approximate zCDP).

    Raises
    ------
    InvalidParameter
        For a number out of its range.

    Examples
    --------
    >>> ZCDP(0.5, delta=1e-8) / 4
    ZCDP(rho=0.125, delta=2.5e-09)
    """

    rho: Fraction
    delta: Fraction

    def __init__(self, rho: Number, delta: Number = 0) -> None:
        object.__setattr__(self, "rho", amount("rho", rho))
        object.__setattr__(self, "delta", share("delta", delta))

    @property
    def additive(self) -> tuple[Fraction, ...]:
        """The numbers that add under composition: (rho, delta)."""
        return (self.rho, self.delta)

    def with_additive(self, numbers: Sequence[Fraction]) -> ZCDP:
        """A guarantee of this kind with these additive numbers; delta stops at 1."""
        rho, delta = numbers
        return ZCDP(rho, min(delta, Fraction(1)))

    @staticmethod
    def within(target: Guarantee) -> ZCDP:
        """Compute the largest rho for which zCDP implies `target`.

        It is rounded down to a multiple of 2^-80.

        Parameters
        ----------
        target
            An ApproxDP, ZCDP or RenyiDP.

        Returns
        -------
        ZCDP
            A budget that keeps the target.

        Raises
        ------
        WrongUnit
            For PureDP and GDP, which no zCDP implies.
        InvalidParameter
            For an ApproxDP whose delta is 0 or 1.

        Examples
        --------
        >>> ZCDP.within(ApproxDP(1.0, 1e-6))
        ZCDP(rho=0.0243559703596)
        """
        return zcdp_within(target)

    @property
    def parameters(self) -> dict[str, str]:
        """Rho, and delta where it is above 0."""
        return {"rho": decimal(self.rho), **_delta(self.delta)}


@dataclass(frozen=True, slots=True, init=False, repr=False)
class GDP(Additive):
    r"""Gaussian DP: neighbors are as hard to tell apart as N(0, 1) and N(mu, 1), or harder.

    mu^2 adds under composition, and is kept exactly in `mu_squared`. The operators mean
    composition: GDP(3) + GDP(4) is GDP(5), and GDP(1) / 4 is GDP(0.5), four of which compose to
    GDP(1). Source: Dong, Roth, Su 2022, Definition 2.6 and Corollary 3.3.

    Parameters
    ----------
    mu
        0 or above. A float means the decimal it prints as.
    delta
        From 0 to 1: the mass of the part of which this need not hold.

    Raises
    ------
    InvalidParameter
        For a number out of its range.

    Examples
    --------
    >>> GDP(3) + GDP(4)
    GDP(mu=5.0)
    >>> GDP(1) / 4
    GDP(mu=0.5)
    """

    mu_squared: Fraction
    delta: Fraction

    def __init__(self, mu: Number, delta: Number = 0) -> None:
        object.__setattr__(self, "mu_squared", amount("mu", mu) ** 2)
        object.__setattr__(self, "delta", share("delta", delta))

    @staticmethod
    def from_squared(mu_squared: Number, delta: Number = 0) -> GDP:
        """Make the guarantee whose mu is the square root of `mu_squared`, kept exactly.

        Parameters
        ----------
        mu_squared
            0 or above.
        delta
            From 0 to 1.

        Returns
        -------
        GDP
            With this `mu_squared`.

        Raises
        ------
        InvalidParameter
            For a number out of its range.

        Examples
        --------
        >>> GDP.from_squared(2).mu_squared
        Fraction(2, 1)
        """
        value = GDP(0, delta)
        object.__setattr__(value, "mu_squared", amount("mu_squared", mu_squared))
        return value

    @property
    def mu(self) -> float:
        """The square root of `mu_squared`, to within one float."""
        return root_near(self.mu_squared)

    @property
    def additive(self) -> tuple[Fraction, ...]:
        """The numbers that add under composition: (mu^2, delta)."""
        return (self.mu_squared, self.delta)

    def with_additive(self, numbers: Sequence[Fraction]) -> GDP:
        """A guarantee of this kind with these additive numbers; delta stops at 1."""
        mu_squared, delta = numbers
        return GDP.from_squared(mu_squared, min(delta, Fraction(1)))

    @staticmethod
    def within(target: Guarantee) -> GDP:
        """Compute the largest mu for which Gaussian DP implies `target`, rounded down.

        For a ZCDP or RenyiDP target it is the largest mu of a Gaussian mechanism that keeps it,
        exactly.

        Parameters
        ----------
        target
            An ApproxDP, GDP, ZCDP or RenyiDP.

        Returns
        -------
        GDP
            A budget that keeps the target.

        Raises
        ------
        WrongUnit
            For PureDP, which no GDP implies.
        InvalidParameter
            For an ApproxDP whose delta is 0 or 1.

        Examples
        --------
        >>> GDP.within(ApproxDP(1.0, 1e-5))
        GDP(mu=0.268051123212)
        """
        return gdp_within(target)

    @property
    def parameters(self) -> dict[str, str]:
        """Mu, and delta where it is above 0."""
        return {"mu": root_decimal(self.mu_squared), **_delta(self.delta)}


@dataclass(frozen=True, slots=True, init=False, repr=False)
class RenyiDP(Additive):
    r"""Renyi DP: the Renyi divergence of order alpha between neighbors is at most epsilon.

    Epsilons of one order add; guarantees of two orders are not comparable.
    Source: Mironov 2017, arXiv:1702.07476, Definition 4.

    Parameters
    ----------
    alpha
        The order, above 1.
    epsilon
        0 or above. A float means the decimal it prints as.

    Raises
    ------
    InvalidParameter
        For a number out of its range.

    Examples
    --------
    >>> RenyiDP(alpha=8, epsilon=0.3) + RenyiDP(alpha=8, epsilon=0.2)
    RenyiDP(alpha=8.0, epsilon=0.5)
    """

    alpha: Fraction
    epsilon: Fraction

    def __init__(self, alpha: Number, epsilon: Number) -> None:
        order = checks.exact("alpha", alpha)
        checks.demand(order > 1, "alpha", alpha, expected="a number above 1")
        object.__setattr__(self, "alpha", order)
        object.__setattr__(self, "epsilon", amount("epsilon", epsilon))

    @property
    def additive(self) -> tuple[Fraction, ...]:
        """The numbers that add under composition at one order: (epsilon,)."""
        return (self.epsilon,)

    def with_additive(self, numbers: Sequence[Fraction]) -> RenyiDP:
        """A guarantee of this order with these additive numbers."""
        (epsilon,) = numbers
        return RenyiDP(self.alpha, epsilon)

    def comparable_with(self, other: object) -> bool:
        """Whether `other` is a RenyiDP of the same order."""
        return isinstance(other, RenyiDP) and other.alpha == self.alpha

    @property
    def parameters(self) -> dict[str, str]:
        """Alpha and epsilon."""
        return {"alpha": decimal(self.alpha), "epsilon": decimal(self.epsilon)}


Guarantee: TypeAlias = PureDP | ApproxDP | ZCDP | GDP | RenyiDP
"""The closed union of the five kinds."""


_MAKERS: dict[str, tuple[Callable[..., Guarantee], set[str]]] = {
    "PureDP": (PureDP, {"epsilon"}),
    "ApproxDP": (ApproxDP, {"epsilon", "delta"}),
    "ZCDP": (ZCDP, {"rho", "delta"}),
    "GDP": (GDP.from_squared, {"mu_squared", "delta"}),
    "RenyiDP": (RenyiDP, {"alpha", "epsilon"}),
}


def guarantee_from_json(text: str) -> Guarantee:
    """The guarantee, of any kind, that `to_json` wrote.

    Raises InvalidParameter for any other text.

    >>> guarantee_from_json(ZCDP("1/3").to_json()) == ZCDP("1/3")
    True
    """
    expected = "the JSON text of a guarantee, as to_json() writes it"
    try:
        fields = dict(json.loads(text))
        maker, names = _MAKERS[fields.pop("guarantee")]
    except (ValueError, TypeError, KeyError):
        raise InvalidParameter("text", text, expected=expected) from None
    if set(fields) != names or not all(isinstance(value, str) for value in fields.values()):
        raise InvalidParameter("text", text, expected=expected)
    return maker(**fields)


def left_of(left: Guarantee, budget: Guarantee) -> str:
    """Format what is left of a budget.

    >>> left_of(PureDP(2), PureDP(3)), left_of(PureDP(0), PureDP(3))
    ('epsilon 2 of 3 left', 'epsilon 3 used up')
    >>> left_of(ZCDP("0.4", "1e-8"), ZCDP("0.5", "1e-8"))
    'rho 0.4 of 0.5, delta 1e-08 of 1e-08 left'
    """
    if not any(left.additive):
        return f"{budget} used up"
    numbers = left.parameters
    parts = (
        f"{name} {_short(numbers.get(name, '0'))} of {_short(whole)}"
        for name, whole in budget.parameters.items()
    )
    return f"{', '.join(parts)} left"


def _delta(delta: Fraction) -> dict[str, str]:
    return {"delta": decimal(delta)} if delta else {}


def _short(number: str) -> str:
    """A decimal without a zero behind the point.

    >>> _short("2.0"), _short("0.25"), _short("1e-08")
    ('2', '0.25', '1e-08')
    """
    return number.removesuffix(".0")


def implies(guarantee: Guarantee, other: Guarantee) -> bool:
    """Whether a theorem of this package shows that `guarantee` implies `other`.

    False means that no theorem here shows it. A guarantee of no loss implies every other, and every
    guarantee implies a delta of 1.
    """
    if not any(guarantee.additive) or getattr(other, "delta", 0) == 1:
        return True
    if isinstance(guarantee, ApproxDP) and guarantee.delta == 0:
        guarantee = PureDP(guarantee.epsilon)
    if isinstance(guarantee, PureDP):
        return guarantee <= pure_within(other)
    if isinstance(guarantee, ApproxDP) and isinstance(other, ZCDP | GDP):
        return guarantee <= approx_dp_within(other)
    match other:
        case PureDP():
            return False
        case ApproxDP():
            return _delta_at(guarantee, other.epsilon) <= other.delta
        case ZCDP():
            rho = zcdp_of(guarantee)
            return rho is not None and rho <= other
        case GDP():
            mu = gdp_of(guarantee)
            return mu is not None and mu <= other
        case RenyiDP():
            divergence = renyi_of(guarantee, alpha=other.alpha)
            return divergence is not None and divergence <= other


def zcdp_of(guarantee: Guarantee) -> ZCDP | None:
    """The least zCDP that a guarantee implies, rounded up; None where no theorem gives one.

    >>> zcdp_of(GDP(1))
    ZCDP(rho=0.5)
    """
    match guarantee:
        case PureDP(epsilon):
            return ZCDP(grid_up(conversions.zcdp_from_pure(epsilon)))
        case ApproxDP(epsilon, delta):
            return ZCDP(grid_up(conversions.zcdp_from_pure(epsilon)), delta)
        case ZCDP():
            return guarantee
        case GDP(mu_squared, delta):
            return ZCDP(mu_squared / 2, delta)
        case RenyiDP():
            return None


def gdp_of(guarantee: Guarantee) -> GDP | None:
    """The least Gaussian DP that a guarantee implies, rounded up; None if it implies none.

    >>> gdp_of(ZCDP(0.5)) is None
    True
    """
    match guarantee:
        case PureDP(epsilon):
            return GDP.from_squared(grid_up(Fraction(conversions.gdp_from_pure(epsilon)) ** 2))
        case ApproxDP(epsilon, delta):
            mu = Fraction(conversions.gdp_from_pure(epsilon))
            return GDP.from_squared(grid_up(mu**2), delta)
        case GDP():
            return guarantee
        case ZCDP() | RenyiDP():
            return None


def renyi_of(guarantee: Guarantee, *, alpha: Fraction) -> RenyiDP | None:
    """The least Renyi DP of order `alpha` that a guarantee implies, rounded up, or None.

    >>> renyi_of(ZCDP(0.5), alpha=Fraction(8))
    RenyiDP(alpha=8.0, epsilon=4.0)
    """
    match guarantee:
        case PureDP(epsilon):
            divergence = conversions.renyi_from_pure(epsilon, alpha=alpha)
            return RenyiDP(alpha, grid_up(divergence))
        case ZCDP(rho, delta) if delta == 0:
            return RenyiDP(alpha, conversions.renyi_from_zcdp(rho, alpha=alpha))
        case GDP(mu_squared, delta) if delta == 0:
            return RenyiDP(alpha, conversions.renyi_from_zcdp(mu_squared / 2, alpha=alpha))
        case RenyiDP(order, epsilon) if order >= alpha:  # the divergence grows with its order
            return RenyiDP(alpha, epsilon)
        case _:
            return None


def pure_within(target: Guarantee) -> PureDP:
    """The largest epsilon for which pure DP implies `target`; see PureDP.within."""
    match target:
        case PureDP():
            return target
        case ApproxDP(epsilon, delta):
            checks.demand(delta != 1, "target", target, expected="a delta below 1")
            largest = conversions.pure_from_approx_dp(epsilon, delta=delta)
            return PureDP(max(epsilon, grid_down(largest)))
        case ZCDP(rho):
            return PureDP(grid_down(conversions.pure_from_zcdp(rho)))
        case GDP(mu_squared):
            return PureDP(grid_down(conversions.pure_from_gdp(root_down(mu_squared))))
        case RenyiDP(alpha, epsilon):
            largest = conversions.pure_from_renyi(epsilon, alpha=alpha)
            return PureDP(max(epsilon, grid_down(largest)))


def bounded_range_within(target: PureDP | ZCDP | GDP | RenyiDP) -> Fraction:
    """The largest epsilon of a mechanism of bounded range that keeps the target, rounded down.

    An exponential mechanism has a range bounded by epsilon. It is then epsilon-DP and (epsilon^2 /
    8)-zCDP, and its mu of Gaussian DP is smaller than that of a pure mechanism. Source:
    docs/proofs/bounded_range.md, Theorem 1; Cesar and Rogers 2020 (zCDP).

    >>> [round(float(bounded_range_within(target)), 3) for target in (GDP(1), ZCDP(0.5))]
    [1.614, 2.0]
    """
    match target:
        case PureDP(epsilon):
            return epsilon
        case ZCDP(rho):
            return Fraction(conversions.bounded_range_from_zcdp(rho))
        case RenyiDP(alpha, epsilon):
            return Fraction(conversions.bounded_range_from_zcdp(epsilon / alpha))
        case GDP(square):
            return Fraction(conversions.bounded_range_from_gdp(root_down(square)))


def approx_dp_within(target: Guarantee) -> ApproxDP:
    """The largest epsilon, at the target's delta, that implies it; see ApproxDP.within."""
    match target:
        case ApproxDP():
            return target
        case PureDP(epsilon):
            return ApproxDP(epsilon, 0)
        case ZCDP(_, delta) | GDP(_, delta):
            return ApproxDP(pure_within(target).epsilon, delta)
        case RenyiDP():
            raise WrongUnit("ApproxDP", target, hint=f"Write PureDP.within({target!r}).")


def zcdp_within(target: Guarantee) -> ZCDP:
    """The largest rho for which zCDP implies `target`; see ZCDP.within."""
    match target:
        case ZCDP():
            return target
        case ApproxDP(epsilon, delta):
            _needs_delta(target)
            return ZCDP(grid_down(conversions.zcdp_from_approx_dp(epsilon, delta=delta)))
        case RenyiDP(alpha, epsilon):
            return ZCDP(epsilon / alpha)
        case PureDP() | GDP():
            raise WrongUnit("ZCDP", target, hint="No rho above 0 implies such a guarantee.")


def gdp_within(target: Guarantee) -> GDP:
    """The largest mu for which Gaussian DP implies `target`; see GDP.within."""
    match target:
        case GDP():
            return target
        case ApproxDP(epsilon, delta):
            _needs_delta(target)
            mu = conversions.gdp_from_approx_dp(epsilon, delta=delta)
            return GDP.from_squared(grid_down(Fraction(mu) ** 2))
        case ZCDP(rho, delta):
            return GDP.from_squared(2 * rho, delta)
        case RenyiDP(alpha, epsilon):
            return GDP.from_squared(2 * epsilon / alpha)
        case PureDP():
            raise WrongUnit("GDP", target, hint="No mu above 0 implies such a guarantee.")


def _needs_delta(target: ApproxDP) -> None:
    if not 0 < target.delta < 1:
        raise InvalidParameter("target", target, expected="a delta strictly between 0 and 1")


def _delta_at(guarantee: ApproxDP | ZCDP | GDP | RenyiDP, epsilon: Fraction) -> Fraction:
    """The delta that a guarantee implies at `epsilon`."""
    match guarantee:
        case ApproxDP(own, part):
            rest = conversions.approx_dp_delta_from_pure(own, epsilon=epsilon)
        case ZCDP(rho, part):
            rest = conversions.approx_dp_delta_from_zcdp(rho, epsilon=epsilon)
        case GDP(mu_squared, part):
            rest = conversions.approx_dp_delta_from_gdp(root_up(mu_squared), epsilon=epsilon)
        case RenyiDP(alpha, own):
            part = Fraction(0)
            rest = conversions.approx_dp_delta_from_renyi(own, alpha=alpha, epsilon=epsilon)
    return conversions.delta_of_mixture(rest, part=part)
