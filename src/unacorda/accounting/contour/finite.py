"""Atoms of finite laws: as they are, on a Poisson sample, or with one unit of a sample replaced."""

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

__all__ = ["drawn", "mirrored_atoms", "replaced", "sampled", "sampled_atoms", "weighed", "whole"]

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
    """`count` copies on a Poisson sample, in one direction, given that all losses are finite."""
    losses = sorted(law.masses)
    kept = 1 - law.infinite
    log_mass = [context().log(kept * law.masses[loss]) - mpf(loss) for loss in losses]
    atoms = sampled_atoms(losses, log_mass, infinite=law.infinite, rate=rate)
    return FiniteLaw(atoms=atoms, remove=remove, count=count, lost=law.lost)


def sampled_atoms(
    losses: Sequence[Fraction], log_mass: Sequence[Any], *, infinite: Any, rate: Fraction
) -> Atoms:
    """Atoms of Q with the ratio of the mixture to it; log_mass: ln Q(loss), not given anything.

    What only Q can give, of mass `infinite`, has the ratio 1 - rate; what only P can give is an
    infinite loss of the mixture. The mixture is divided by its mass beside that.

    Source      docs/proofs/contour.md, section 12.
    """
    mp = context()
    ratio, levels = drawn(_boxes(losses), rate), list(log_mass)
    if infinite > 0:
        levels.append(mp.log(infinite))
        last = box(1 - rate).log()
        ratio = Box(np.append(ratio.lower, last.lower), np.append(ratio.upper, last.upper))
        gain = -float(mp.log1p(-mpf(rate) * infinite))
        ratio = ratio + Box(np.asarray(gain * (1 - 4 * UNIT)), np.asarray(gain * (1 + 4 * UNIT)))
    return _atoms(levels, ratio)


def replaced(
    laws: Sequence[tuple[Any, Finite]],
    *,
    rate: Fraction,
    count: int,
    remove: bool,
    lost: float,
) -> FiniteLaw:
    """`count` steps in which one unit of a sample is replaced: the symmetric pair.

    laws: the base laws under replacement with their weights, of sum 1 but for `lost`; rate: the
    probability that the unit is in the sample. Losses above 0 come from those of the base, under
    Q; below 0 lie their mirrors, and the rest is an atom at 0.

    Source      docs/proofs/contour.md, section 13.
    """
    mp = context()
    log_mass, places = [], []
    centre, infinite = mp.mpf(0), mp.mpf(0)
    for weight, law in laws:
        rise = mp.mpf(0)
        for loss in sorted(law.masses):
            share = weight * (1 - law.infinite) * law.masses[loss]
            if loss > 0:
                log_mass.append(mp.log(share) - mpf(loss))
                places.append(loss)
                rise += share * -mp.expm1(-mpf(loss))
            elif loss == 0:
                centre += share
        centre += (1 - mpf(rate)) * (rise + weight * law.infinite)
        infinite += weight * law.infinite
    return FiniteLaw(
        atoms=mirrored_atoms(
            places, log_mass, centre=centre, kept=1 - mpf(rate) * infinite, rate=rate
        ),
        remove=remove,
        count=count,
        lost=lost + 4 * max(law.lost for _, law in laws),
    )


def mirrored_atoms(
    losses: Sequence[Fraction], log_mass: Sequence[Any], *, centre: Any, kept: Any, rate: Fraction
) -> Atoms:
    """Atoms at the ratios of losses above 0 and their mirrors, one at 0, all divided by `kept`."""
    scale = context().log(kept)
    atoms = _atoms([value - scale for value in log_mass], drawn(_boxes(losses), rate))
    return weighed(atoms, centre=centre / kept)


def weighed(atoms: Atoms, *, centre: Any) -> Atoms:
    """Atoms with their mirrors, and one at 0 of the mass `centre`."""
    log_mass = [atoms.log_mass + atoms.log_ratio, atoms.log_mass]
    error = [atoms.log_mass_error + atoms.log_ratio_error, atoms.log_mass_error]
    ratio, slip = [-atoms.log_ratio, atoms.log_ratio], [atoms.log_ratio_error] * 2
    if centre > 0:
        level = float(context().log(centre))
        log_mass.append(np.array([level]))
        error.append(np.array([4 * UNIT * (1 + abs(level))]))
        ratio.append(np.zeros(1))
        slip.append(np.zeros(1))
    return Atoms(
        log_mass=np.concatenate(log_mass),
        log_mass_error=np.concatenate(error) + 2 * UNIT * np.abs(np.concatenate(log_mass)),
        log_ratio=np.concatenate(ratio),
        log_ratio_error=np.concatenate(slip),
    )


def drawn(loss: Box, rate: Fraction) -> Box:
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
