"""Orders of scores for which the best of many runs shows most: pairs that private selection has.

A run with the loss l of P against Q gets a score that depends on l alone: from some `start` on
losses are ordered as they are, whatever is below wins over all of these, and an infinite loss over
all others. A high loss is then released where no run was low, which P makes likelier than Q does.
With w and w' the probabilities under P and Q of what wins over a cell, and f(x) = E x^K, the best
of K runs is of a cell of mass p with probability f(1 - w) - f(1 - w - p). Ties are broken by a
uniform number that is released as well: large masses are cut into parts.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from unacorda.accounting.pld.grid import law_below
from unacorda.accounting.pld.sources import atoms_of_pair, curve_of_atoms
from unacorda.accounting.pld.tables import end_of_losses
from unacorda.accounting.profiles.boxes import Array
from unacorda.accounting.profiles.curves import Curve
from unacorda.checks import exact
from unacorda.privacy.events import PoissonTries
from unacorda.privacy.events.selection import Tries

_CELLS = 1 << 11
"""Of losses on either side of 0."""
_STARTS = np.linspace(0.02, 0.96, 48)
"""Probabilities under P of what wins over all others."""
_FINEST = 1 / 256
_DELTAS = (1e-4, 1e-6, 1e-9)
"""Orders are compared by their epsilons here; one that is nowhere far from the best is taken."""
_FAINT = 1e-40
"""Losses are looked at as far as delta is above this."""
_LARGEST = 1e4
"""Of means and shapes: beyond, powers lose too many digits."""
_MOST = 1000
"""Of caps: their chances are added one by one."""
_UNIT = 2.0**-53

_Masses: TypeAlias = Callable[[Array, Array], Array]
"""(w, p) -> f(1 - w) - f(1 - w - p), for all p, by falling w, the last one's with w = 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Runs:
    """The law of the number of runs: masses of cells, the chance of no run, a factor of errors."""

    masses: _Masses
    none: float
    condition: float


def curve_of_best_order(event: Tries, run: Curve) -> Curve | None:
    """The curve of the best of many runs of a pair, with the best of some orders of scores.

    run: of a pair that one run allows, in one direction.

    None where K has numbers that are too large for floats, or a large cap.

    Bound       lower: of one pair that the event allows. Of 48 orders it is the one whose epsilon,
                as a share of the largest of all, is largest at the worst of three deltas.
    Source      docs/proofs/selection.md, Section 7.
    """
    runs = _runs_of(event)
    if runs is None:
        return None
    pairs = [pair for pair in _best_runs(run, runs) if pair is not None]
    if not pairs:
        return None
    found = np.array([[_epsilon(*pair[:2], delta) for delta in _DELTAS] for pair in pairs])
    shares = found / np.maximum(found.max(axis=0), 1e-300)
    first, second, trust = pairs[int(np.argmax(shares.min(axis=1)))]
    return curve_of_atoms(atoms_of_pair(first, second, trust=trust))


def _runs_of(event: Tries) -> _Runs | None:
    if event.most is not None and event.most > _MOST:
        return None
    if isinstance(event, PoissonTries):
        mean = float(exact("mean", event.mean))
        if mean > _LARGEST:
            return None
        if event.most is None:
            return _poisson(mean)
        return _capped(1.0, [mean / k for k in range(1, event.most + 1)])
    shape, stop = (float(exact(name, getattr(event, name))) for name in ("shape", "stop"))
    if stop == 1 or abs(shape) > _LARGEST or 0 < abs(shape) < 1 / _LARGEST:
        return None
    if event.most is None:
        return _negative_binomial(shape, stop)
    factors = [(1 - stop) * (k - 1 + shape) / k for k in range(2, event.most + 1)]
    return _capped(0.0, [1.0, *factors])


def _capped(none: float, factors: Sequence[float]) -> _Runs:
    """A law with finitely many numbers of runs, by the ratio of each chance to the one before.

    none: the chance of no run, or 0, where the first ratio is the chance of one run; chances are
    divided by their sum.
    """
    chances = np.cumprod([none or 1.0, *factors])
    chances[0] = none
    chances /= math.fsum(chances)

    def masses(_above: Array, own: Array) -> Array:
        # x^k - y^k, without differences of near numbers; x = 1 - above, as all masses are here
        x = np.cumsum(own)
        with np.errstate(divide="ignore"):
            fallen = np.log1p(-np.minimum(own / np.maximum(x, 1e-300), 1.0))
        found = np.zeros_like(x)
        power = np.ones_like(x)
        for k, chance in enumerate(chances[1:], start=1):
            power = power * x
            found -= chance * power * np.expm1(k * fallen)
        return found

    return _Runs(masses=masses, none=float(chances[0]), condition=4.0 + len(factors))


def _poisson(mean: float) -> _Runs:
    def masses(above: Array, own: Array) -> Array:
        found: Array = -np.exp(-mean * above) * np.expm1(-mean * own)
        return found

    return _Runs(masses=masses, none=math.exp(-mean), condition=1 + mean)


def _negative_binomial(shape: float, stop: float) -> _Runs:
    whole = -math.log(stop) if shape == 0 else math.expm1(-shape * math.log(stop))

    def masses(above: Array, own: Array) -> Array:
        inner = stop + (1 - stop) * above  # 1 - (1 - stop) x at the upper end of the cell
        grown = np.log1p((1 - stop) * own / inner)
        found: Array = (
            grown / whole
            if shape == 0
            else -np.power(inner, -shape) * np.expm1(-shape * grown) / whole
        )
        return found

    return _Runs(masses=masses, none=0.0, condition=(2 + abs(shape)) * (2 - math.log(stop)))


def _best_runs(run: Curve, runs: _Runs) -> list[tuple[Array, Array, float] | None]:
    """The pairs of all starts: masses under P and under Q, and their relative error."""
    losses, p, q, infinity = _law(run)
    over = infinity + np.cumsum(p[::-1])[::-1]
    starts = np.unique(np.searchsorted(-over, _STARTS - 1.0))
    return [
        _best_run(losses[start:], p[start:], q[start:], infinity, runs)
        for start in starts
        if start < len(p)
    ]


def _best_run(
    losses: Array, p: Array, q: Array, infinity: float, runs: _Runs
) -> tuple[Array, Array, float] | None:
    """The cells of these losses, ascending, what wins over them, and the infinite loss."""
    winning = 1 - math.fsum(p) - infinity, 1 - math.fsum(q)
    if min(winning) < _FINEST or math.log(winning[0] / winning[1]) > losses[0] - 1e-9:
        return None  # not below the run's curve, which is 1 - x where x is small
    parts = np.maximum(np.ceil(np.maximum(p, q) / _FINEST), 1).astype(np.int64)
    cells = np.repeat(p / parts, parts), np.repeat(q / parts, parts)
    laws = []
    for own, rest, lost in zip(cells, winning, (infinity, 0.0), strict=True):
        masses = np.concatenate((own, [rest, lost]))
        above = np.append(np.cumsum(masses[:0:-1])[::-1], 0.0)
        found = runs.masses(above, masses)
        laws.append(np.append(found, runs.none) if runs.none else found)
    trust = 64 * _UNIT * (len(laws[0]) + 8) * runs.condition / min(winning)
    return (laws[0], laws[1], trust) if trust < 1e-6 else None


def _law(run: Curve) -> tuple[Array, Array, Array, float]:
    """Losses, and masses under P and Q, of a law whose curve is nowhere above that of the run."""
    end = end_of_losses(run, above=_FAINT)
    step = Fraction(end) / _CELLS
    if run.spacing is not None:
        step = run.spacing / max(1, math.ceil(run.spacing / step))
    count = math.ceil(Fraction(end) / step) + 2
    law = law_below(run, step=step, first=-count, last=count)
    held = law.weights > 0
    losses: Array = np.asarray((np.flatnonzero(held) + law.first) * float(step), dtype=np.float64)
    masses = law.weights[held]
    others = masses * np.exp(-losses) * (1 + 16 * _UNIT * (1 + np.abs(losses)))
    return losses, masses, others, law.infinity


def _epsilon(first: Array, second: Array, delta: float) -> float:
    """The epsilon of a pair at a delta, about: by sums from the largest ratio downward."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        order = np.argsort(-first / second)
        over, under = np.cumsum(first[order]), np.cumsum(second[order])
        found = np.log(np.maximum(over - delta, 0.0) / under)
    return float(np.max(found, initial=0.0, where=found < math.inf))
