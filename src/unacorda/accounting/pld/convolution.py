"""Sums of independent losses on a grid: tilted laws, fast Fourier transforms, every error counted.

The laws are multiplied by e^{c loss} and scaled to mass 1, so that the losses that matter for a
tiny delta become the common ones; the transform's round-off is then small beside them. What lies
outside the window of the cyclic transform is bounded by Chernoff's inequality.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unacorda.accounting.pld.grid import Law
from unacorda.accounting.profiles.boxes import Array
from unacorda.extras import later

scipy = later("scipy")

_U = 2.0**-53
_STEEP, _LEAST = 600.0, 1e-250
"""A kernel is left out where it is below e^-600."""
_NORMAL = 1e-300
"""Numbers below it are rounded by more than a unit of their own, or to nothing."""
_Complex: TypeAlias = NDArray[np.complex128]
Side: TypeAlias = Literal[1, -1]
"""1: whatever is rounded makes profiles larger; -1: smaller."""
Cumulant: TypeAlias = Callable[[float], tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Where the sum is looked at: nodes first..first + size - 1, under a tilt c.

    higher, lower: orders for Chernoff's bound of what lies above and below, on either side of c.
    """

    first: int
    size: int
    tilt: float
    higher: float
    lower: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tilted:
    """A law on a grid: weights[i] = values[i] e^{height - c loss} at node first + i.

    cumulant: at an order, an upper bound of the logarithm of the sum of w e^{order loss} over
    finite losses, and a bound of its rounding; infinity: the mass of infinite loss; drift: how far
    losses may lie on the wrong side of the nodes; noise: the sum of all errors of the values, and
    of values elsewhere.
    """

    first: int
    values: Array = field(repr=False)
    height: float
    cumulant: Cumulant = field(repr=False)
    infinity: float
    drift: float = 0.0
    noise: float = 0.0


class LossSum:
    """The law of a sum: e^{exponent - tilt loss} times values, each within +-error, and bounds.

    above, below: logarithms of Chernoff bounds of the tilted mass outside the window; infinity:
    the mass at infinity; noise: the sum of the errors that its terms brought, wherever they lie,
    and `spread` of those that `error` bounds; drift: as in Tilted.
    """

    def __init__(
        self,
        laws: Sequence[tuple[Tilted, int]],
        *,
        step: Fraction,
        window: Window,
        side: Side,
    ) -> None:
        """Sum `count` independent losses of each law, which were rounded to one side.

        Bound       upper or lower, as the side says: values of the tilted sum of the rounded laws,
                    wrapped round the window, lie within `error` of those given.
        Source      Higham 2002, Section 24.1 (the transform); docs/proofs/pld.md, Theorem 2.
        """
        size = window.size
        spectrum: _Complex = np.ones(size // 2 + 1, dtype=np.complex128)
        slack = np.zeros(size // 2 + 1)
        rounding = 8 * _U * (math.log2(size) + 1)
        exponent = drift = scale = noise = 0.0
        turns = -window.first
        for law, count in laws:
            drift += count * law.drift * (1 + 4 * _U)
            folded = _folded(law, size=size, side=side)
            found = raised(folded, count, rounding=rounding, height=law.height)
            exponent += count * found.height
            turns += count * found.place
            scale += count * math.log(max(found.mass + law.noise / found.unit, 1e-300))
            noise += count * law.noise / max(found.mass * found.unit + law.noise, 1e-300)
            with np.errstate(under="ignore"):
                slack = (
                    slack * (np.abs(found.power) + found.errors) + np.abs(spectrum) * found.errors
                )
                spectrum = spectrum * found.power
                slack += 4 * _U * np.abs(spectrum)
        values = np.roll(scipy.fft.irfft(spectrum, size), turns % size)
        everything = 2 * float(np.sum(slack + rounding * np.abs(spectrum)))
        # in quadratic mean a transform keeps errors, and its own are relative
        root = math.sqrt(2 * float(np.sum(np.square(slack))))
        root += rounding * math.sqrt(size * float(np.sum(np.square(values)))) * 2
        self._laws, self.step, self.window, self.values = laws, step, window, values
        self.exponent, self.drift = exponent, drift
        self.error = everything / size * 1.01
        self.spread = min(root, everything) * 1.01
        self.noise = noise * exponential(scale) * (1 + 1e-9)
        self.infinity = _infinity(laws, side=side)
        rises, drops = self.cumulant(window.higher), self.cumulant(window.lower)
        self.above = _chernoff(rises, exponent, window.tilt, window.higher, self.top)
        self.below = _chernoff(drops, exponent, window.tilt, window.lower, self.bottom)

    def cumulant(self, order: float) -> tuple[float, float]:
        """As in Tilted."""
        found = [(law.cumulant(order), count) for law, count in self._laws]
        value = sum(count * one[0] for one, count in found)
        return value, sum(count * (one[1] + 4 * _U * abs(one[0])) for one, count in found)

    def delta_above(self, epsilon: float) -> float:
        """An upper bound of the profile of the sum; see docs/proofs/pld.md, Theorem 2."""
        lowered = epsilon - self._slack(epsilon)
        start, kernel = self._kernel(lowered)
        stop = start + len(kernel)
        inner = float(np.sum((np.maximum(self.values[start:stop], 0.0) + self.error) * kernel))
        if stop < self.window.size:
            rest = float(np.sum(np.maximum(self.values[stop:], 0.0)))
            inner += (rest + self.error * self.window.size) * _LEAST
        # what lies below the window may matter too, and is not known
        missed = exponential(self.below) if lowered < self.bottom else 0.0
        inner += (self.noise + missed) * self.peak
        height = self.exponent - self.window.tilt * lowered
        finite = exponential(height + self.charge(epsilon)) * inner * (1 + 1e-13) + self.beyond
        finite = max(finite, _NORMAL) if inner > 0 else finite
        return min(1.0, (self.infinity + finite) * (1 + 8 * _U))

    def delta_below(self, epsilon: float) -> float:
        """A lower bound of the profile of the sum."""
        raised = epsilon + self._slack(epsilon)
        start, kernel = self._kernel(raised)
        values = self.values[start : start + len(kernel)]
        inner = float(np.sum(np.maximum(values - self.error, 0.0) * kernel))
        # a loss that the transform wraps into the sum appears with at most the kernel's peak
        wrapped = self.wrapped * self.peak
        height = self.exponent - self.window.tilt * raised
        inner = max(inner * (1 - 1e-13) - wrapped, 0.0)
        finite = exponential(height - self.charge(epsilon)) * inner
        finite = finite if finite > _NORMAL else 0.0
        return min(1.0, max(0.0, (self.infinity + finite) * (1 - 8 * _U)))

    def masses(self) -> tuple[Array, Array]:
        """Losses of the window and their masses, without the tilt; round-off below 0 is cut."""
        numbers = np.arange(self.window.first, self.window.first + self.window.size)
        losses: Array = np.asarray(numbers * float(self.step))
        with np.errstate(under="ignore"):
            weights = np.maximum(self.values - self.error, 0.0) * np.exp(
                np.minimum(self.exponent - self.window.tilt * losses, 700.0)
            )
        return losses, weights

    @property
    def top(self) -> float:
        """The loss one node above the window."""
        return (self.window.first + self.window.size) * float(self.step)

    @property
    def bottom(self) -> float:
        """The least loss of the window."""
        return self.window.first * float(self.step)

    @property
    def beyond(self) -> float:
        """A bound of the mass, without the tilt, of what lies above the window."""
        return exponential(self.above - self.window.tilt * self.top + self.exponent) * (1 + 1e-13)

    def charge(self, epsilon: float) -> float:
        """The error of the logarithm of a term: of the window's tilt and the exponent."""
        reach = max(abs(self.top), abs(self.bottom), abs(epsilon))
        return 16 * _U * (abs(self.exponent) + abs(self.window.tilt) * reach + 4)

    @property
    def wrapped(self) -> float:
        """A bound of the tilted mass that is not where the values say."""
        return exponential(self.above) + exponential(self.below) + self.noise

    @property
    def peak(self) -> float:
        """The largest value of e^{-c d} (1 - e^{-d})."""
        tilt = self.window.tilt
        return math.exp(-tilt * math.log1p(1 / tilt)) / (1 + tilt) * (1 + 64 * _U * (1 + tilt))

    def _kernel(self, epsilon: float) -> tuple[int, Array]:
        """The first node beyond epsilon, and e^{-c d} (1 - e^{-d}) at distances d from there on.

        It ends where it is below _LEAST.
        """
        width = float(self.step)
        start = max(math.floor(epsilon / width) - self.window.first, 0)
        start = min(start, self.window.size)
        reach = math.ceil(_STEEP / (self.window.tilt * width)) + 2
        stop = min(self.window.size, start + reach)
        numbers = np.arange(self.window.first + start, self.window.first + stop)
        distances = np.maximum(numbers * width - epsilon, 0.0)
        with np.errstate(under="ignore"):
            return start, np.exp(-self.window.tilt * distances) * -np.expm1(-distances)

    def _slack(self, epsilon: float) -> float:
        """A bound of the errors of losses in floats, of a difference's, and the drift."""
        return 8 * _U * (max(abs(self.top), abs(self.bottom)) + abs(epsilon)) + self.drift


def tilted(law: Law, *, step: Fraction, tilt: float, side: Side) -> Tilted:
    """The law under the tilt, with mass about one, rounded to one side.

    Each weight is moved by its own error, so that the result is exactly the tilt of some law that
    lies beyond the given one; no error of the tilt is left to be multiplied by the count.
    """
    powers = np.arange(law.first, law.first + len(law.weights)) * float(step) * tilt
    infinity = law.infinity * (1 + side * 2 * _U)
    present = law.weights > 0
    if not present.any():
        return nowhere(infinity)
    with np.errstate(under="ignore", divide="ignore", over="ignore", invalid="ignore"):
        logs = np.log(law.weights) + powers
        peak = float(np.max(logs))
        height = peak + math.log(float(np.sum(np.exp(logs - peak))))
        mild = np.abs(powers - height) < 650.0
        values = np.where(mild, law.weights * np.exp(powers - height), np.exp(logs - height))
    # l, c l and the difference are rounded; a logarithm brings at most 750 units more
    errors = 4 * _U * (np.abs(powers) * 2 + abs(height) + np.where(mild, 8.0, 760.0))
    return Tilted(
        first=law.first,
        values=values * (1 + side * errors),
        height=height,
        cumulant=cumulant_of(
            law.first, values * (1 + side * errors), height=height, step=step, tilt=tilt
        ),
        infinity=infinity,
    )


def nowhere(infinity: float) -> Tilted:
    """The law without finite losses."""
    return Tilted(
        first=0,
        values=np.zeros(1),
        height=0.0,
        cumulant=lambda _: (-math.inf, 0.0),
        infinity=infinity,
    )


def cumulant_of(
    first: int, values: Array, *, height: float, step: Fraction, tilt: float
) -> Cumulant:
    """The cumulant of a tilted law from its values."""
    present = np.flatnonzero(values > 0)
    with np.errstate(under="ignore"):
        logs = np.log(values[present])
    losses = (present + first) * float(step)
    ends = float(np.max(np.abs(losses), initial=0.0))

    def at(order: float) -> tuple[float, float]:
        if not len(present):
            return -math.inf, 0.0
        exponents = logs + (order - tilt) * losses
        peak = float(np.max(exponents))
        with np.errstate(under="ignore"):
            value = peak + math.log(float(np.sum(np.exp(exponents - peak)))) + height
        reach = abs(order - tilt) * ends + abs(peak) + abs(height)
        return value, 16 * _U * (reach + 750.0 + math.log2(len(present) + 1))

    return at


def _chernoff(
    sums: tuple[float, float], exponent: float, tilt: float, order: float, edge: float
) -> float:
    """The logarithm of Chernoff's bound of the tilted mass beyond the edge."""
    if sums[0] == -math.inf:
        return -math.inf
    height = sums[0] - exponent - (order - tilt) * edge
    return height + sums[1] + 16 * _U * (abs(sums[0]) + abs(exponent) + abs(order * edge))


def _folded(law: Tilted, *, size: int, side: Side) -> Array:
    """The values wrapped round the window's length; sums are rounded to the side."""
    shift = law.first % size
    length = -(-(shift + len(law.values)) // size) * size
    padded = np.zeros(length)
    padded[shift : shift + len(law.values)] = law.values
    folded: Array = padded.reshape(-1, size).sum(axis=0)
    return folded * (1 + side * 2 * _U * (length // size - 1))


def _infinity(laws: Sequence[tuple[Tilted, int]], *, side: Side) -> float:
    """The mass of sums with an infinite term: 1 - prod (1 - m).

    Mass that a law lacks to 1 may be thought of at an infinitely negative loss; of mass that it
    has beyond 1 the least losses may be left out: docs/proofs/pld.md, Lemma 4.
    """
    apart = 0.0
    for law, count in laws:
        apart += count * math.log1p(-law.infinity) if law.infinity < 1 else -math.inf
    found = -math.expm1(apart * (1 + side * 1e-13)) * (1 + side * 1e-13)
    return min(max(found, 0.0), 1.0)


def exponential(value: float) -> float:
    """The exponential of a number, infinite beyond the floats."""
    return math.exp(value) if value < 709 else math.inf


_TOO_LOOSE = 600.0
_ASIDE = 0.5
"""An atom is set aside where all else weighs less than this share of it."""
_MANY, _BLOCK = 1 << 12, 64


class Raised(NamedTuple):
    """The transform of a law's power, which stands for `unit^count` times as much.

    place: the node that was moved to 0, once for each copy; mass: of one copy, in units; height:
    of the law, with ln of the unit; errors: of the power.
    """

    power: _Complex
    errors: Array
    mass: float
    unit: float
    height: float
    place: int


def raised(folded: Array, count: int, *, rounding: float, height: float) -> Raised:
    """The transform of `count` copies of the law whose values are these, e^-height times as much.

    rounding: of a transform, in shares of the sum of what is transformed. The largest value is set
    aside where it outweighs the others: then round-off is in proportion to those alone. Of many
    copies of others it is in proportion to the frequency, where that tells more.

    Bound       both: the power lies within `errors` of what is returned.
    Source      docs/proofs/pld.md, Theorem 2.
    """
    place = int(np.argmax(folded))
    atom = float(folded[place])
    rest = np.roll(folded, -place)
    rest[0] = 0.0
    beside = float(np.sum(rest))
    if 0 < beside < _ASIDE * atom:  # (1 + r)^count, where r is all but the atom
        share = beside / atom
        r = scipy.fft.rfft(rest) / atom
        wrong = rounding * share * 1.02 + 4 * _U * np.abs(r)
        return _of_rest(r, wrong, count, unit=atom, height=height, place=place, share=share)
    found = _squared(folded, count, rounding=rounding, height=height)
    if count < _MANY or len(folded) % 2 or not np.all(folded >= 0):
        return found
    return _centred(folded, count, found, rounding=rounding, height=height)


def _of_rest(
    r: _Complex, wrong: Array, count: int, *, unit: float, height: float, place: int, share: float
) -> Raised:
    """(1 + r)^count, of which r is known within `wrong`: only its own size brings round-off.

    Divided by (1 + share)^count, which is hardly larger.
    """
    sizes, near = np.abs(r), np.abs(1 + r)
    top = math.log1p(share)
    with np.errstate(invalid="ignore", divide="ignore", under="ignore", over="ignore"):
        logs = 0.5 * np.log1p(r.real * (2 + r.real) + r.imag * r.imag)
        turned = np.arctan2(r.imag, 1 + r.real)
        loose = 2.5 * wrong + 48 * _U * (sizes + share)
        loose = count * (loose + 8 * _U * (abs(height) + abs(math.log(unit))))
        power = np.exp(count * (logs - top)) * np.exp(1j * (count * turned))
        errors = np.abs(power) * (np.expm1(loose) + 16 * _U) + 1e-300
        errors = np.where(loose < _TOO_LOOSE, errors, math.inf)
        far = near < _ASIDE
        power = np.where(far, 0.0, power)
        errors = np.where(far, np.exp(count * np.log(near + wrong + 8 * _U)) + 1e-300, errors)
    log = math.log(unit)
    return Raised(power, errors, 1.0 + 8 * _U, unit * (1 + share), height + log + top, place)


def _centred(folded: Array, count: int, known: Raised, *, rounding: float, height: float) -> Raised:
    """The power where it is known better than by squaring: at low frequencies.

    With w the values about their middle and z = e^(-i theta), the sum of w_j (z^j - 1) is z - 1
    times that of f_i z^i, where f_i is the sum of w_j over j > i, or less that over j <= i < 0.
    """
    size = len(folded)
    half = size // 2
    mass = math.fsum(folded)
    if not 0 < mass < math.inf:
        return known
    place = int(np.searchsorted(np.cumsum(folded), mass / 2)) % size
    values = np.roll(folded, half - place)
    upper = _sums(values[half:][::-1])[::-1]
    f = np.concatenate((upper[1:], [0.0], -_sums(values[:half])))
    absolute = float(np.sum(np.abs(f))) / mass
    theta = 2 * math.pi * np.arange(half + 1) / size
    turn = -2j * np.sin(theta / 2) * np.exp(-0.5j * theta)  # z - 1
    r = turn * (scipy.fft.rfft(f) / mass)
    # of _sums, relative
    summing = (_BLOCK + 2) * (math.log(size) / math.log(_BLOCK) + 1) * _U
    wrong = (rounding + summing) * absolute * np.abs(turn) * 1.02 + 16 * _U * np.abs(r) + _U
    found = _of_rest(r, wrong, count, unit=mass, height=height, place=place, share=0.0)
    # by squaring, in the same unit and about the same place
    log = math.log(mass)
    if abs(count * log) > _TOO_LOOSE:
        return found
    turned = np.exp(2j * math.pi / size * ((place * count % size) * np.arange(half + 1) % size))
    squared = known.power * turned * math.exp(-count * log)
    loose = known.errors * math.exp(-count * log) * (1 + 1e-9)
    loose = loose + np.abs(squared) * 8 * _U * (16 + count * (1 + abs(log)))
    better = loose < found.errors
    power = np.where(better, squared, found.power)
    return found._replace(power=power, errors=np.where(better, loose, found.errors))


def _sums(values: Array) -> Array:
    """The sum of all values up to each, in blocks, so that few roundings pass into any."""
    if len(values) <= _BLOCK:
        return np.cumsum(values)
    rows = np.zeros(-(-len(values) // _BLOCK) * _BLOCK)
    rows[: len(values)] = values
    inner = np.cumsum(rows.reshape(-1, _BLOCK), axis=1)
    before = np.concatenate(([0.0], _sums(inner[:, -1])[:-1]))
    found: Array = (inner + before[:, None]).ravel()[: len(values)]
    return found


def _squared(folded: Array, count: int, *, rounding: float, height: float) -> Raised:
    """The power by squaring: at most 2 count roundings pass into any factor."""
    mass = float(np.sum(folded))
    values = scipy.fft.rfft(folded)
    charge = rounding * mass * 1.01
    sizes = np.abs(values)
    result: _Complex = np.ones_like(values)
    left = count
    with np.errstate(under="ignore"):
        while left:
            if left & 1:
                result = result * values
            left >>= 1
            if left:
                values = values * values
        near = np.exp((count - 1) * np.log(np.maximum(sizes + charge, 1e-300)))
        errors = count * (charge + 8 * _U * sizes) * near + 1e-300
    return Raised(result, errors, mass, 1.0, height, 0)
