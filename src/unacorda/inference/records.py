"""Reads what callers hand in: columns and matrices, public bounds, and budgets.

One row is one person, and the number of rows is public: neighbors differ by one replaced row.
Errors depend only on shapes and dtypes, never on a value: NaN raises no error.

An estimator makes several releases: a scale, gradients, matrices for its standard errors. The whole
budget is converted once, analytically, into the largest mu-GDP that implies it. Squares of mu add,
so shares add up to the whole without loss (Dong, Roth, Su 2022, Corollary 3.3). The final guarantee
is the budget itself.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction
from statistics import NormalDist
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks, elements
from unacorda.errors import InvalidParameter, MissingBound
from unacorda.extras import require
from unacorda.privacy.guarantees import (
    GDP,
    ZCDP,
    ApproxDP,
    Guarantee,
    PureDP,
    RenyiDP,
    bounded_range_within,
)

Floats: TypeAlias = NDArray[np.float64]

_FARTHEST: Final = 1e100
"""Squares of bounds, and of noise in their unit, stay finite, so that no answer can fail."""

_SIZES: Final = (1e-40, 1e40)
"""Sizes whose fourth powers, times those of matrices, stay far from both ends of a float."""

_LEAST_EPSILON: Final = Fraction(1, 2**200)
"""Of an epsilon with which something is chosen; floats cannot separate less from none."""


def column(argument: str, values: ArrayLike, *, least: int = 1) -> Floats:
    """The values as a new float64 array of one dimension, `least` of them or more.

    Integers beyond 2^53 are rounded; elements of a list are read one by one, and one that is no
    number is NaN. Raises InvalidParameter for another shape or dtype.
    """
    array = elements.floats(argument, values, dimensions=1)
    if array.ndim != 1 or array.size < least:
        raise InvalidParameter(
            argument, array.shape, expected=f"one dimension, of {least} or more numbers"
        )
    return np.array(array)


def matrix(argument: str, values: ArrayLike, *, least: int = 1, width: int | None = None) -> Floats:
    """The values as a float64 array of two dimensions, one row per person, `least` or more rows.

    width: of a list of rows, by default that of the first; a row of another width is all NaN.
    It may be the caller's own array: do not write to it.
    """
    array = elements.floats(argument, values, dimensions=2, width=width)
    if array.ndim != 2 or array.shape[0] < least or array.shape[1] < 1:
        raise InvalidParameter(
            argument,
            array.shape,
            expected=f"two dimensions, {least} or more rows and 1 or more columns",
        )
    return array


def public_range(lower: float | None, upper: float | None, *, of: str) -> tuple[float, float]:
    """The public bounds of a column, lower below upper; MissingBound where one is left out."""
    if lower is None or upper is None:
        argument = "lower" if lower is None else "upper"
        raise MissingBound(
            argument, expected=f"a public bound of {of}, known without looking at the data"
        )
    low, high = checks.finite(lower=lower), checks.finite(upper=upper)
    for argument, bound in (("lower", low), ("upper", high)):
        checks.demand(abs(bound) <= _FARTHEST, argument, bound, expected="within -1e100 and 1e100")
    checks.demand(low < high, "upper", upper, expected=f"above lower, {lower}")
    if high - low < 1 / _FARTHEST:
        raise InvalidParameter("upper", upper, expected=f"1e-100 above lower, {lower}, or more")
    return low, high


def public_size(**arguments: float | None) -> float:
    """The one named argument, a public number from 1e-40 to 1e40; else InvalidParameter.

    Raises MissingBound where it is left out.

    >>> public_size(largest=20)
    20.0
    """
    ((argument, given),) = arguments.items()
    if given is None:
        raise MissingBound(argument, expected="a public bound; what is larger is clipped to it")
    least, most = _SIZES
    if not least <= (size := checks.positive(**{argument: given})) <= most:
        raise InvalidParameter(argument, given, expected=f"a number from {least:g} to {most:g}")
    return size


def public_pair(argument: str, given: object, *, of: str) -> tuple[float, float]:
    """The public bounds that one argument holds, as `public_range`; errors name this argument.

    >>> public_pair("target_bounds", (0, 10), of="y")
    (0.0, 10.0)
    """
    if given is None:
        raise MissingBound(
            argument, expected=f"public bounds (lower, upper) of {of}, known without its values"
        )
    ends: Any = given
    try:
        lower, upper = ends
        return public_range(lower, upper, of=of)
    except (TypeError, ValueError):  # InvalidParameter is one of the latter
        raise InvalidParameter(
            argument,
            given,
            expected=f"a pair (lower, upper) of numbers within -1e100 and 1e100, bounds of {of}, "
            "the first below the second",
        ) from None


def bounds_of(
    feature_bounds: tuple[ArrayLike, ArrayLike] | None, *, features: int
) -> tuple[Floats, Floats]:
    """Public bounds as two arrays, one number per feature; MissingBound where they are left out."""
    if feature_bounds is None:
        raise MissingBound(
            "feature_bounds",
            expected="public bounds (lower, upper) within which most values of the features lie, "
            "each one number or one a feature; values beyond them are not cut",
        )
    expected = f"a pair (lower, upper) of finite numbers, or of {features} numbers each"
    try:
        lower, upper = (
            np.broadcast_to(np.asarray(bound, dtype=np.float64), (features,))
            for bound in feature_bounds
        )
    except (TypeError, ValueError):
        raise InvalidParameter("feature_bounds", feature_bounds, expected=expected) from None
    with np.errstate(over="ignore", invalid="ignore"):
        width = upper - lower
    if not (np.isfinite(width).all() and (width > np.finfo(np.float64).tiny * 2**60).all()):
        raise InvalidParameter(
            "feature_bounds", feature_bounds, expected=expected + ", each lower below its upper"
        )
    return lower, upper


def half_width(confidence: float, sampling: Floats, privacy: Floats | float) -> Floats:
    """Half the width of intervals whose two errors are normal; confidence: in (0, 1)."""
    z = NormalDist().inv_cdf((1 + checks.probability(confidence=confidence)) / 2)
    return np.asarray(z * np.hypot(sampling, privacy))


def data_frame(**columns: Any) -> Any:
    """A data frame of columns of one length; MissingExtra without pandas."""
    return require("pandas", extra="frames").DataFrame(columns)


class ArrayErrors:
    """Standard errors of an array of estimates, from its two parts."""

    __slots__ = ()

    sampling_error: Floats
    privacy_error: Floats | float

    @property
    def standard_error(self) -> Floats:
        """The root of the sum of both squares, number by number."""
        return np.asarray(np.hypot(self.sampling_error, self.privacy_error))


def unit_values(values: Floats, *, lower: float, upper: float) -> Floats:
    """(x - c) / h in [-1, 1], c the centre and h half the width; NaN at the centre, 0.

    >>> unit_values(np.array([0.0, 5.0, 99.0, np.nan]), lower=0, upper=10).tolist()
    [-1.0, 0.0, 1.0, 0.0]
    """
    centre, half = lower + (upper - lower) / 2, (upper - lower) / 2
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = (np.clip(values, lower, upper) - centre) / half
    np.nan_to_num(scaled, copy=False, nan=0.0)
    return np.clip(scaled, -1.0, 1.0, out=scaled)


def check_budget(budget: object) -> Guarantee:
    """Returns a guarantee that allows some loss; InvalidParameter for anything else.

    >>> check_budget(PureDP(1))
    PureDP(epsilon=1.0)
    """
    if not isinstance(budget, PureDP | ApproxDP | ZCDP | GDP | RenyiDP):
        raise InvalidParameter(
            "budget", budget, expected="a guarantee such as unacorda.GDP(1) or ApproxDP(1, 1e-6)"
        )
    checks.demand(
        budget.additive[0], "budget", budget, expected="a guarantee that allows some privacy loss"
    )
    return budget


def takes_normal_noise(budget: Guarantee) -> bool:
    """True if normal noise can keep such a guarantee."""
    return not (isinstance(budget, PureDP) or (isinstance(budget, ApproxDP) and not budget.delta))


def gdp_budget(budget: object) -> GDP:
    """The largest Gaussian DP, its delta 0, that implies the budget.

    GDP is unchanged, ApproxDP is inverted analytically, and ZCDP and RenyiDP become the normal
    mechanism that they allow. Raises InvalidParameter for PureDP, which normal noise cannot keep,
    and for an ApproxDP without a delta.

    >>> gdp_budget(ZCDP(0.5))
    GDP(mu=1.0)
    """
    checked = check_budget(budget)
    if isinstance(checked, PureDP):
        raise InvalidParameter(
            "budget",
            checked,
            expected="GDP, ZCDP, RenyiDP or ApproxDP with a delta, since normal noise keeps no "
            f"pure guarantee; for instance ApproxDP({float(checked.epsilon):g}, 1e-6)",
        )
    return GDP.from_squared(GDP.within(checked).mu_squared)


def shareable(budget: object, *, releases: int) -> PureDP | ZCDP | GDP:
    """Convert the budget to the kind that suits this number of releases of single numbers.

    ApproxDP becomes PureDP or Gaussian DP, whichever leaves less noise; RenyiDP its zCDP.

    >>> shareable(ApproxDP(1, 1e-6), releases=2), shareable(RenyiDP(8, 2), releases=2)
    (PureDP(epsilon=1.0), ZCDP(rho=0.25))
    """
    checked = check_budget(budget)
    match checked:
        case PureDP() | ZCDP() | GDP():
            return checked
        case RenyiDP(alpha, epsilon):
            return ZCDP(epsilon / alpha)
        case ApproxDP(epsilon, delta):
            pure = PureDP(epsilon)
            if not delta:
                return pure
            normal = gdp_budget(checked)
            # Deviations sqrt 2 k / epsilon and sqrt k / mu, both squared.
            return pure if 2 * releases * normal.mu_squared <= epsilon**2 else normal


def selection_epsilon(budget: object, *, releases: int = 1) -> Fraction:
    """The largest epsilon that each of several exponential mechanisms may have within the budget.

    Their range is bounded: each costs epsilon^2 / 8 in zCDP, and less than a pure mechanism in
    Gaussian DP. Under ApproxDP pure composition is better for a few. Raises InvalidParameter if the
    budget is too small for a meaningful choice. Source: docs/proofs/bounded_range.md, Theorem 1;
    Cesar and Rogers 2020 (zCDP).

    >>> [round(float(selection_epsilon(budget)), 3) for budget in (GDP(1), ZCDP(0.5))]
    [1.614, 2.0]
    """
    checked = check_budget(budget)
    epsilon = _selection_epsilon(checked, releases=releases)
    checks.demand(
        epsilon > _LEAST_EPSILON,
        "budget",
        budget,
        expected="a larger one: no selection could use this one",
    )
    return epsilon


def _selection_epsilon(budget: Guarantee, *, releases: int) -> Fraction:
    if not isinstance(budget, ApproxDP):
        return bounded_range_within(budget * Fraction(1, releases))
    pure = budget.epsilon / releases
    if not budget.delta:
        return pure
    return max(pure, _selection_epsilon(gdp_budget(budget), releases=releases))
