r"""Clipping bounds: the weights of units' gradients in a sum.

Each bound computes weights w_u from norms alone. Its `sensitivity` is the largest l2 norm of what
one unit adds to the released sum of w_u g_u.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from unacorda import checks
from unacorda.errors import InvalidParameter
from unacorda.extras import later

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "COUNT",
    "ClippingBound",
    "Flat",
    "FollowedQuantile",
    "Normalized",
    "PerLayer",
    "bound_of",
]

torch: Any = later("torch")

_NORM_ERROR: Final = 1 + 2.0**-12
"""The factor by which norms in float32 are increased, more than their relative rounding error."""

_MOST: Final = 1.7e19
"""A unit with a longer gradient is left out: float32 does not hold the square."""

_LONGEST: Final = 2.0**65
"""The same where it is so many times the bound: its weight may be too small for float32."""

_SHORT: Final = 1e-12
"""The shortest norm that a followed quantile comes to; its inverse is the longest."""

COUNT: Final = ""
"""The name among sums, which no parameter has, of what a bound that follows norms counts."""


class ClippingBound(ABC):
    """A bound on the gradient of a unit.

    Examples
    --------
    >>> bound: ClippingBound = Flat(norm=1.0)
    >>> bound.sensitivity
    1.0
    """

    @property
    @abstractmethod
    def sensitivity(self) -> float:
        """The largest l2 norm of what one unit adds to the sum."""

    @abstractmethod
    def weights(self, squares: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return the weights of gradients.

        Parameters
        ----------
        squares
            By parameter the squared norm of each unit's gradient.

        Returns
        -------
        Mapping
            By parameter the weight of each unit; 0 where a norm is not finite.
        """

    def check(self, names: list[str]) -> None:
        """Check that the bound fits the parameters of a model.

        Parameters
        ----------
        names
            Their names.

        Raises
        ------
        InvalidParameter
            Where it does not.
        """
        del names

    @property
    def follows(self) -> bool:
        """Whether steps also release a count that adapts the bound."""
        return False

    def counted(self, squares: Mapping[str, Tensor], present: Tensor) -> Tensor:
        """Return the count of norms that is released for a batch.

        Parameters
        ----------
        squares
            By parameter the squared norm of each unit's gradient.
        present
            Which units are present, and not padding.

        Returns
        -------
        Tensor
            A number in float64; 0 if the bound is not adaptive.
        """
        del squares, present
        return torch.zeros((), dtype=torch.float64)

    def moved(self, released: float, batch_size: int) -> ClippingBound:
        """Return the bound of the next step.

        Parameters
        ----------
        released
            What was released of the norms of this one.
        batch_size
            The number of units that is expected in a batch.

        Returns
        -------
        ClippingBound
            The bound itself if it is not adaptive.
        """
        del released, batch_size
        return self


def _norms(squares: Mapping[str, Tensor]) -> Tensor:
    found: Tensor = sum(squares.values())
    return found.sqrt()


def _finite(weights: Tensor, norms: Tensor, bound: float) -> Tensor:
    """The weights, 0 where a norm is no number, or more than float32 can compute with."""
    found: Tensor = torch.where(norms <= min(_MOST, _LONGEST * bound), weights, 0.0)
    return found


@dataclass(frozen=True, kw_only=True)
class Flat(ClippingBound):
    """Clips the whole gradient of a unit to one norm.

    Source: Abadi et al. 2016, arXiv:1607.00133.

    Parameters
    ----------
    norm
        In the l2 norm, above 0.

    Raises
    ------
    InvalidParameter
        For a norm that is not above 0.

    Examples
    --------
    >>> Flat(norm=1.0).sensitivity
    1.0
    """

    norm: float

    def __post_init__(self) -> None:
        checks.positive(norm=self.norm)

    @property
    def sensitivity(self) -> float:
        """The norm."""
        return float(self.norm)

    def weights(self, squares: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """The bound over the norm, at most 1."""
        norms = _norms(squares)
        weights = _finite(self.norm / (norms * _NORM_ERROR).clamp(min=self.norm), norms, self.norm)
        return dict.fromkeys(squares, weights)


@dataclass(frozen=True, kw_only=True)
class FollowedQuantile(ClippingBound):
    """Clips as `Flat`, at a norm that adapts privately to a quantile of the norms of units.

    Each step releases, in one vector with the gradients, the number of units within the norm, minus
    a half for each unit. So a step remains one Gaussian mechanism, and its gradients have 1 /
    sqrt(1 - spent) times the noise. The norm is then multiplied by exp(rate (quantile - share)),
    where the share of units within it is that count over the batch size.

    Source: Andrew, Thakkar, McMahan, Ramaswamy 2021, arXiv:1905.03871.

    Parameters
    ----------
    norm
        Of the first step, in the l2 norm, above 0.
    quantile
        The share of units that should not be clipped, between 0 and 1.
    rate
        How fast the norm adapts, above 0.
    spent
        The share of a step's precision, 1 / sigma^2, that the count has, between 0 and 1.

    Raises
    ------
    InvalidParameter
        For numbers out of their range.

    Examples
    --------
    >>> bound = FollowedQuantile(norm=3.0, spent=0.1)
    >>> round(bound.sensitivity, 3)
    3.162
    >>> bound.moved(0.0, batch_size=100).norm  # half of 100 units are within it
    3.0
    """

    norm: float
    quantile: float = 0.5
    rate: float = 0.2
    spent: float = 0.02

    def __post_init__(self) -> None:
        checks.positive(norm=self.norm)
        checks.positive(rate=self.rate)
        for name in ("quantile", "spent"):
            if not 0 < getattr(self, name) < 1:
                expected = "a number above 0 and below 1"
                raise InvalidParameter(name, getattr(self, name), expected=expected)

    @property
    def sensitivity(self) -> float:
        """The norm and the count together, rounded up."""
        return math.nextafter(float(self.norm) / math.sqrt(1 - self.spent) * (1 + 1e-15), math.inf)

    @property
    def follows(self) -> bool:
        """Always."""
        return True

    @property
    def _weight(self) -> float:
        """Of the count, in which a unit is 1/2 or -1/2."""
        return 2 * float(self.norm) * math.sqrt(self.spent / (1 - self.spent))

    def weights(self, squares: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Those of `Flat`."""
        return Flat(norm=self.norm).weights(squares)

    def counted(self, squares: Mapping[str, Tensor], present: Tensor) -> Tensor:
        """Half of the units within the norm, minus half of the others, by a weight."""
        within = _norms(squares) * _NORM_ERROR <= self.norm
        signs = torch.where(within, 0.5, -0.5).double()
        found: Tensor = self._weight * (signs * present.to(signs)).sum()
        return found

    def moved(self, released: float, batch_size: int) -> FollowedQuantile:
        """The norm nearer to the quantile."""
        share = min(max(released / self._weight / batch_size + 0.5, 0.0), 1.0)
        norm = float(self.norm) * math.exp(self.rate * (self.quantile - share))
        return dataclasses.replace(self, norm=min(max(norm, _SHORT), 1 / _SHORT))


@dataclass(frozen=True, kw_only=True)
class Normalized(ClippingBound):
    """Divides the gradient of a unit by its own norm plus a small number: no norm to tune.

    Source: Bu, Wang, Zha, Karypis 2023, arXiv:2206.07136 (automatic clipping).

    Parameters
    ----------
    norm
        The resulting bound of all gradients, in the l2 norm, above 0.
    smoothing
        The small number, above 0.

    Raises
    ------
    InvalidParameter
        For a number that is not above 0.

    Examples
    --------
    >>> Normalized().sensitivity
    1.0
    """

    norm: float = 1.0
    smoothing: float = 0.01

    def __post_init__(self) -> None:
        checks.positive(norm=self.norm)
        checks.positive(smoothing=self.smoothing)

    @property
    def sensitivity(self) -> float:
        """The norm."""
        return float(self.norm)

    def weights(self, squares: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """The bound over the norm and the smoothing."""
        norms = _norms(squares)
        weights = _finite(self.norm / (norms * _NORM_ERROR + self.smoothing), norms, self.norm)
        return dict.fromkeys(squares, weights)


@dataclass(frozen=True, kw_only=True)
class PerLayer(ClippingBound):
    """Clips the gradient of each parameter, or group of parameters by prefix, separately.

    Source: He et al. 2023, arXiv:2212.01539.

    Parameters
    ----------
    norms
        An l2 norm above 0 by prefix of the parameters' names, such as {"encoder": 0.5, "head":
        1.0}. Every trained parameter belongs to its longest prefix.

    Raises
    ------
    InvalidParameter
        For no norms, and for one that is not above 0.

    Examples
    --------
    >>> round(PerLayer(norms={"encoder": 3.0, "head": 4.0}).sensitivity, 9)
    5.0
    """

    norms: Mapping[str, float]

    def __post_init__(self) -> None:
        if not self.norms:
            raise InvalidParameter("norms", self.norms, expected='a mapping such as {"head": 1.0}')
        for norm in self.norms.values():
            checks.positive(norms=norm)

    @property
    def sensitivity(self) -> float:
        """The root of the sum of squared norms, rounded up."""
        return math.nextafter(math.hypot(*map(float, self.norms.values())) * (1 + 2e-16), math.inf)

    def check(self, names: list[str]) -> None:
        """Raise InvalidParameter if a parameter has no norm, or a norm has no parameter."""
        groups = {self._group(name) for name in names}
        missing = [name for name in names if self._group(name) is None]
        idle = sorted(set(self.norms) - groups)
        if missing or idle:
            raise InvalidParameter(
                "norms",
                missing or idle,
                expected="a norm for every trained parameter, and no norms without a parameter",
            )

    def _group(self, name: str) -> str | None:
        fitting = [one for one in self.norms if name == one or name.startswith(f"{one}.")]
        return max(fitting, key=len, default=None)

    def weights(self, squares: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """The bounds over norms, group by group; a unit that is nowhere finite has 0 everywhere."""
        norms = _norms(squares)
        found: dict[str, Tensor] = {}
        for group, norm in self.norms.items():
            own = {name: value for name, value in squares.items() if self._group(name) == group}
            if own:
                weights = norm / (_norms(own) * _NORM_ERROR).clamp(min=norm)
                found |= dict.fromkeys(own, _finite(weights, norms, norm))
        return {name: found[name] for name in squares}


def bound_of(clip: float | ClippingBound) -> ClippingBound:
    """The bound that `clip` names: a number is that of `Flat`."""
    return clip if isinstance(clip, ClippingBound) else Flat(norm=clip)
