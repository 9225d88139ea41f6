"""The four common parts of mechanisms, with the same names everywhere.

==================  ==============================================================================
``event``           What one release costs, for an accountant to price.
``release``         The private answer; random bits may be handed in as `bits`.
``for_guarantee``   The mechanism whose release keeps a guarantee, with the least noise that does.
``error_bound``     How far off an answer is at most, with a confidence, whatever the data are.
==================  ==============================================================================

Every mechanism has the first two. The third is missing if a price depends on more than one release
(calibrate with `unacorda.accounting.calibrate`), the fourth if no bound holds for all data. A
guarantee is the first, positional argument. Sensitivities (`l1_sensitivity`, `sensitivity`, ...)
and all other parameters of the class are keywords.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Protocol, Self, TypeVar

from unacorda.checks import Number
from unacorda.mechanisms.parameters import readable, root_digits_down, some_of, whole
from unacorda.privacy.events import Event
from unacorda.privacy.guarantees import ZCDP, ApproxDP, PureDP

Answer_co = TypeVar("Answer_co", covariant=True)


class Mechanism(Protocol[Answer_co]):
    """An immutable value that states the cost of a release, and makes releases."""

    @property
    def event(self) -> Event:
        """What one release costs."""
        ...

    def release(self, *values: Any, **public: Any) -> Answer_co:
        """The private answer."""
        ...


class Calibrated(Protocol):
    """A mechanism that can be made from the guarantee it keeps."""

    @classmethod
    def for_guarantee(cls, guarantee: Any, **parameters: Any) -> Self:
        """The mechanism whose release keeps the guarantee."""
        ...


class Accurate(Protocol):
    """A mechanism whose error is bounded before any data is seen."""

    def error_bound(self, confidence: Number, **public: Any) -> float:
        """A bound on the error of an answer, with at least this probability, rounded up."""
        ...


class PureCalibrated:
    """A mechanism whose `epsilon` is that of a PureDP guarantee."""

    __slots__ = ()

    @classmethod
    def for_guarantee(cls, guarantee: PureDP, **parameters: Any) -> Self:
        """Make the mechanism that spends a whole PureDP guarantee on one release.

        Parameters
        ----------
        guarantee
            A PureDP.
        **parameters
            Those of the class, but for epsilon.

        Raises
        ------
        InvalidParameter
            For another guarantee.
        """
        make: Callable[..., Self] = cls
        return make(epsilon=readable(some_of(guarantee, PureDP).epsilon), **parameters)


class PerNumberCalibrated(PureCalibrated):
    """A mechanism whose `epsilon` is the cost of one number; a unit can change `l0_sensitivity`."""

    __slots__ = ()

    @classmethod
    def for_guarantee(
        cls, guarantee: PureDP, *, l0_sensitivity: int = 1, **parameters: Any
    ) -> Self:
        """Make the mechanism that spends a PureDP guarantee, in equal shares of the numbers.

        Parameters
        ----------
        guarantee
            A PureDP.
        l0_sensitivity
            The most numbers that one unit changes, 1 or more.
        **parameters
            Those of the class, but for epsilon.

        Raises
        ------
        InvalidParameter
            For another guarantee.
        """
        moved = whole("l0_sensitivity", l0_sensitivity, least=1, most=1 << 40)
        one = PureDP(some_of(guarantee, PureDP).epsilon / moved)
        return super().for_guarantee(one, l0_sensitivity=moved, **parameters)


class ApproxCalibrated:
    """A mechanism whose `epsilon` and `delta` are those of an ApproxDP guarantee."""

    __slots__ = ()

    @classmethod
    def for_guarantee(cls, guarantee: ApproxDP, **parameters: Any) -> Self:
        """Make the mechanism that spends a whole ApproxDP guarantee on one release.

        Parameters
        ----------
        guarantee
            An ApproxDP, with a delta above 0.
        **parameters
            Those of the class, but for epsilon and delta.

        Raises
        ------
        InvalidParameter
            For another guarantee, and for a delta of 0.
        """
        make: Callable[..., Self] = cls
        kept = some_of(guarantee, ApproxDP)
        return make(epsilon=readable(kept.epsilon), delta=readable(kept.delta), **parameters)


class RangeCalibrated(PureCalibrated):
    """A mechanism of bounded range `epsilon`, which is epsilon-DP and (epsilon^2 / 8)-zCDP."""

    __slots__ = ()

    @classmethod
    def for_guarantee(cls, guarantee: PureDP | ZCDP, **parameters: Any) -> Self:
        """Make the mechanism that spends a whole guarantee on one release.

        Source: Cesar and Rogers 2021, arXiv:2004.07223 (bounded range in zCDP).

        Parameters
        ----------
        guarantee
            A PureDP, which gives epsilon; or a ZCDP, which gives sqrt(8 rho), rounded down at the
            15th digit. A delta is not used.
        **parameters
            Those of the class, but for epsilon.

        Raises
        ------
        InvalidParameter
            For another guarantee.
        """
        if not isinstance(guarantee, ZCDP):
            return super().for_guarantee(guarantee, **parameters)
        make: Callable[..., Self] = cls
        return make(epsilon=root_digits_down(8 * some_of(guarantee, ZCDP).rho), **parameters)


class NonCopyable:
    """A holder of noise that was paid for once; it cannot be copied or pickled."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        msg = (
            "A started stream cannot be pickled or copied: two holders of one stream and its noise "
            "would give more answers than were paid for. Start another where it is needed."
        )
        raise TypeError(msg)
