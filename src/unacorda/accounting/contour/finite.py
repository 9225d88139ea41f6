"""Atoms of finite laws: as they are, or on a Poisson sample."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from unacorda.accounting.contour.atoms import Atoms
from unacorda.accounting.contour.closed import FiniteLaw
from unacorda.accounting.contour.series import UNIT, Floats
from unacorda.accounting.laws import Finite
from unacorda.accounting.profiles.boxes import Box, box, choose
from unacorda.privacy.enclosure import context, mpf

_FAR = 40.0
"""Of larger losses the exponential is not formed; of smaller ones the logarithm of a tiny rate
would cancel."""


def whole(law: Finite, *, count: int, remove: bool) -> FiniteLaw:
    """`count` copies of a finite law, given that all losses are finite."""
    losses = sorted(law.masses)
    log_mass = [context().log(law.masses[loss]) - mpf(loss) for loss in losses]
    atoms = _atoms(log_mass, _boxes(losses))
    return FiniteLaw(atoms=atoms, remove=remove, count=count, lost=law.lost)


def sampled(law: Finite, *, rate: Fraction, count: int, remove: bool) -> FiniteLaw:
    """`count` copies on a Poisson sample, in one direction, given that all losses are finite.

    What only Q can give, of mass `infinite`, has the ratio 1 - rate; what only P can give is an
    infinite loss of the mixture. The mixture is divided by its mass beside that.

    Source      docs/proofs/contour.md, section 12.
    """
    mp, infinite = context(), law.infinite
    losses = sorted(law.masses)
    levels = [mp.log((1 - infinite) * law.masses[loss]) - mpf(loss) for loss in losses]
    ratio = _drawn(_boxes(losses), rate)
    if infinite > 0:
        levels.append(mp.log(infinite))
        last = box(1 - rate).log()
        ratio = Box(np.append(ratio.lower, last.lower), np.append(ratio.upper, last.upper))
        gain = -float(mp.log1p(-mpf(rate) * infinite))
        ratio = ratio + Box(np.asarray(gain * (1 - 4 * UNIT)), np.asarray(gain * (1 + 4 * UNIT)))
    return FiniteLaw(atoms=_atoms(levels, ratio), remove=remove, count=count, lost=law.lost)


def _drawn(loss: Box, rate: Fraction) -> Box:
    """ln(1 - rate + rate e^loss)."""
    if rate == 1:
        return loss
    q, rest = box(rate), box(1 - rate)
    low, high = loss.at_most(_FAR), loss.at_least(_FAR)
    near = (low.expm1() * q).log1p()
    far = high + q.log() + (rest / q * (-high).exp()).log1p()
    return choose(loss.upper > _FAR, _hull(far, near, loss), near)


def _hull(far: Box, near: Box, loss: Box) -> Box:
    """The far form where it is sure to hold, both where the loss may lie on either side."""
    both = Box(np.minimum(far.lower, near.lower), np.maximum(far.upper, near.upper))
    return choose(loss.lower >= _FAR, far, both)


def _boxes(losses: Sequence[Fraction]) -> Box:
    near = np.array([float(loss) for loss in losses])
    return Box(np.nextafter(near, -np.inf), np.nextafter(near, np.inf))


def _atoms(log_mass: Sequence[Any], ratio: Box) -> Atoms:
    mass: Floats = np.array([float(value) for value in log_mass])
    middle = 0.5 * (ratio.lower + ratio.upper)
    return Atoms(
        log_mass=mass,
        log_mass_error=2 * UNIT * np.abs(mass) + 1e-300,
        log_ratio=middle,
        log_ratio_error=np.maximum(ratio.upper - middle, middle - ratio.lower) * (1 + 1e-9),
    )
