r"""Regression on people who trust nobody: each of them sends one report, in one of some rounds.

People are dealt out to rounds at random. Some tell the second moments of their features, which
sets the length of careful first steps; then the curvature near the end is told, and the last
rounds take Newton's steps with it, whose ends are averaged. Standard errors come from that
curvature and from how the gradients' reports scatter. docs/proofs/regression.md, section 8.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.errors import InvalidParameter
from unacorda.inference.designs import root_of
from unacorda.inference.local_devices import Device
from unacorda.inference.losses import Logistic, Poisson
from unacorda.inference.records import Floats
from unacorda.inference.sums import Moment
from unacorda.privacy.guarantees import Guarantee

__all__ = ["LocalErrors", "LocalFit", "dealt", "shares"]

_EARLY: Final = [Fraction(part, 80) for part in (2, 2, 3, 4, 5)]
_LATE: Final = [Fraction(part, 80) for part in (7, 14, 19, 24)]
"""Shares of those who tell gradients: in careful steps, then in Newton's steps."""

_MOMENT_NORM: Final = 0.15
_CURVATURE_NORM: Final = 0.08
"""What the noise of matrices may be, as an operator, beside the bound of their mean."""

_NARROWEST: Final = 0.01
"""No second moment in any direction is taken to be less."""

_CAREFUL: Final = 1.25
"""Whitened features have second moments below 2, of which a step divided by this goes too far."""

_FEWEST: Final = 10
_LARGEST_NORM: Final = 0.5
_LONGEST: Final = 3.0
_SIGNAL: Final = 2.0
_FARTHEST: Final = 1.0
"""Logarithms of odds or means that change by more make the curvature that was told another one."""
_LEAST: Final = 0.02
"""No mean curvature is taken to be below this share of the loss's bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalErrors:
    """Covariances of the scaled coefficients: of all of it, and of sampling alone; the signal."""

    total: Floats
    sampling: Floats
    signal: float


class _Taken(NamedTuple):
    """A late step: how many told gradients, its length, and the squares of their reports."""

    people: int
    length: float
    squares: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFit:
    """The server's side: x and y are asked through the device alone, everybody once."""

    device: Device
    x: Floats
    y: Floats
    groups: list[NDArray[np.int64]]
    bits: RandomBits

    def run(self, start: Floats) -> tuple[Floats, LocalErrors]:
        """The scaled coefficients and their errors."""
        moment = self._moment(self.device.moment(self.x[self.groups[0]], bits=self.bits))
        root = root_of(moment, least=max(_NARROWEST, moment.norm))
        white = replace(self, device=replace(self.device, root=root))
        first: Floats = np.asarray(np.linalg.solve(root, start), dtype=np.float64)
        theta, errors = white.descend(first)
        return root @ theta, LocalErrors(
            total=root @ errors.total @ root.T,
            sampling=root @ errors.sampling @ root.T,
            signal=errors.signal,
        )

    def descend(self, theta: Floats) -> tuple[Floats, LocalErrors]:
        """From here on in whitened coefficients, by all groups but the first."""
        early = len(_EARLY)
        bound = self.device.loss.curvature_bound
        for group in self._some(self.groups[1 : 1 + early]):
            way = self._gradients(group, theta).mean(axis=0) / (_CAREFUL * bound)
            way *= min(1.0, _LONGEST * self._unit / max(float(np.linalg.norm(way)), 1e-300))
            theta = theta - way
        group = self.groups[1 + early]
        told = self.device.curvature(self.x[group], self.y[group], theta=theta, bits=self.bits)
        found = self._moment(told)
        least = max(_LEAST, math.sqrt(2) * found.norm)
        inverse: Floats = np.asarray(np.linalg.inv(bound * found.floored(least)), np.float64)
        taken: list[_Taken] = []
        near, people = theta, 0
        for place, group in enumerate(self._some(self.groups[2 + early :])):
            reports = self._gradients(group, theta)
            people = len(group) + (
                people if place > 1 else 0
            )  # the first step goes most of the way
            length, mean = len(group) / people, reports.mean(axis=0)
            taken.append(_Taken(len(group), length, (reports - mean).T @ (reports - mean)))
            theta = theta - length * (inverse @ mean)
        errors = self._errors(found, inverse, taken)
        if isinstance(self.device.loss, Logistic | Poisson):
            # Newton's steps fall short then, as they do wherever classes are separated.
            moved = max(float(np.linalg.norm(theta - near)), 1e-300)
            errors = replace(errors, signal=min(errors.signal, _SIGNAL * _FARTHEST / moved))
        return theta, errors

    def _errors(self, found: Moment, inverse: Floats, taken: list[_Taken]) -> LocalErrors:
        size = self.device.scales.size
        signal = float(np.linalg.eigvalsh(found.matrix)[0]) / found.norm
        bent = self.device.loss.curvature_bound * found.floored(max(_LEAST, found.norm))
        free = sum(one.people - 1 for one in taken)
        scatter: Floats = sum((one.squares for one in taken), np.zeros((size, size))) / max(free, 1)
        noise = min(self.device.gradients.variance, float(np.trace(scatter)) / size)
        values, vectors = np.linalg.eigh(scatter - noise * np.eye(size))
        own: Floats = (vectors * np.maximum(values, 0.0)) @ vectors.T
        total, sampling = np.zeros((size, size)), np.zeros((size, size))
        for one in taken:
            step = one.length * inverse
            left = np.eye(size) - step @ bent
            total = left @ total @ left.T + step @ scatter @ step.T / one.people
            sampling = left @ sampling @ left.T + step @ own @ step.T / one.people
        return LocalErrors(total=total, sampling=sampling, signal=signal)

    @staticmethod
    def _some(groups: list[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
        """Those in which somebody is; of few people not every round gets one."""
        return [group for group in groups if len(group)]

    def _moment(self, reports: Floats) -> Moment:
        return Moment(
            matrix=self.device.matrix(reports),
            deviation=self.device.matrix_deviation(len(reports)),
        )

    def _gradients(self, group: NDArray[np.int64], theta: Floats) -> Floats:
        return self.device.gradient(self.x[group], self.y[group], theta=theta, bits=self.bits)

    @property
    def _unit(self) -> float:
        return self.device.loss.score_bound / self.device.loss.curvature_bound


def shares(device: Device, people: int, *, asked: Guarantee) -> list[Fraction]:
    """Which share of the people is in each round, by public numbers alone.

    InvalidParameter for too few people: where a round would be empty, or noise hide the matrices.
    """
    size, few = device.scales.size, math.ceil(100 / people)  # one of few people at least
    if people < _FEWEST:
        raise InvalidParameter(
            "X", f"n_samples={people}", expected=f"{_FEWEST} people or more, some for each round"
        )
    norm = device.matrix_deviation(people) * math.sqrt(2 * size)  # if all of them told it
    moment = _share(norm / _MOMENT_NORM, least=max(4, few), most=12)
    curvature = _share(norm / _CURVATURE_NORM, least=max(8, few), most=30)
    if norm / math.sqrt(curvature) > _LARGEST_NORM:
        times = (norm / math.sqrt(curvature) / _LARGEST_NORM) ** 2
        raise InvalidParameter(
            "budget",
            asked,
            expected=f"a larger one, or {math.ceil(times * 10) / 10:g} times the people (here "
            f"n_samples={people}, for {size} parameters): noise would hide the curvature",
        )
    rest = 1 - moment - curvature
    return [moment, *(rest * part for part in _EARLY), curvature, *(rest * one for one in _LATE)]


def dealt(parts: list[Fraction], people: int, *, bits: RandomBits) -> list[NDArray[np.int64]]:
    """The people of each round, dealt out at random; nobody is in two rounds."""
    order = np.argsort(bits.words(people), kind="stable")
    ends = [math.floor(sum(parts[: place + 1]) * people) for place in range(len(parts))]
    return [order[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def _share(root: float, *, least: int, most: int) -> Fraction:
    """The square of the root in whole percents, between two of them."""
    return Fraction(min(max(math.ceil(min(root, 1.0) ** 2 * 100), least), most), 100)
